"""The bill in whole replicas and the price of a millisecond, in words and a small table."""

import streamlit as st

from pages.ui.furniture import safe
from specmath.bill import bill, millisecond_price
from specmath.predict import Prediction
from specmath.wording import change, significant, usd


def show_millisecond(prediction: Prediction) -> None:
    """Extra dollars per million tokens for each millisecond saved."""
    price = millisecond_price(prediction)
    if prediction.usd is None:
        st.markdown("**Price of a millisecond**: unknown until the times and the price are given.")
    elif price is None:
        st.markdown("**Price of a millisecond**: none. Cost does not rise, or no time is saved.")
    else:
        st.markdown(
            safe(
                f"**Price of a millisecond**: {usd(price)} per million tokens for each ms of time "
                "per token saved."
            )
        )


def show_bill(prediction: Prediction) -> None:
    """Replicas and dollars a month, plain and speculative."""
    st.subheader("The bill, in whole replicas", anchor=False)
    found = bill(prediction)
    if found is None:
        st.markdown(
            "Unknown: give the output tokens a second to serve (sidebar, Money), the price of a "
            "GPU hour and the two times in ms."
        )
        return
    plain, spec = found.plain, found.speculative
    rows = (
        (
            "Tokens/s of one replica",
            significant(plain.tokens_per_second),
            significant(spec.tokens_per_second),
            change(spec.tokens_per_second, plain.tokens_per_second),
        ),
        (
            "Replicas",
            f"{plain.replicas:,}",
            f"{spec.replicas:,}",
            f"{spec.replicas - plain.replicas:+,}",
        ),
        (
            "Bill a month (730 h)",
            usd(plain.usd_per_month),
            usd(spec.usd_per_month),
            change(spec.usd_per_month, plain.usd_per_month),
        ),
    )
    lines = ["| | Plain | Speculative | Change |", "|---|---:|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    st.markdown(safe("\n".join(lines)))
    st.caption(
        "The bill falls only when a replica leaves. Every replica is taken as fully busy at the "
        "batch given: no headroom for bursts."
    )
