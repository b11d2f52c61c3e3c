"""The bill in whole replicas and the price of a millisecond, in words and a small table."""

import streamlit as st

from pages.ui import furniture
from pages.ui.furniture import downloads, plain_table, verbatim
from specmath.bill import bill, millisecond_price
from specmath.charts.load import cost_over_batch
from specmath.load import load_study
from specmath.numbers import usd
from specmath.predict import Prediction
from specmath.tables import batch_table, beside, bill_table
from specmath.words.load import cheapest_sentence


def show_cost_over_batch(prediction: Prediction) -> None:
    """With hardware: dollars over batch, the cheapest point and the fastest."""
    s = prediction.scenario
    if not s.costs.computed:
        st.caption("With “From GPU, models and load” this page also shows cost over batch.")
        return
    if s.usd_per_hour is None:
        st.markdown("Cost over batch is unknown until the price of a GPU hour is given.")
        return
    study = load_study(prediction.endpoint)
    usd_of_best = study.usd_per_million(s, study.recommended_gamma[:, study.own])
    furniture.chart(
        cost_over_batch(study, s),
        f"Cost per million output tokens over the batch that is held, at context {s.context:,}",
        f"{cheapest_sentence(study, usd_of_best)} Hollow points: more than the memory holds.",
    )
    furniture.table(batch_table(prediction))


def show_millisecond(prediction: Prediction) -> None:
    """Extra dollars per million tokens for each millisecond saved."""
    price = millisecond_price(prediction)
    if prediction.usd is None:
        st.markdown("**Price of a millisecond**: unknown until the times and the price are given.")
    elif price is None:
        st.markdown("**Price of a millisecond**: none. Cost does not rise, or no time is saved.")
    else:
        st.markdown(
            f"**Price of a millisecond**: {verbatim(usd(price))} per million tokens for each ms "
            "of time per token saved."
        )


def show_bill(prediction: Prediction) -> None:
    """Replicas and dollars a month, plain and speculative."""
    st.subheader("The bill, in whole replicas", anchor=False)
    if bill(prediction) is None:
        s = prediction.scenario
        missing = {
            "the output tokens a second to serve (sidebar, Money)": s.demand_tokens_per_second,
            "the price of a GPU hour (sidebar, Money)": s.usd_per_hour,
            "the target's time in ms": prediction.tpot_plain,
        }
        asked = " and ".join(name for name, value in missing.items() if value is None)
        st.markdown(f"Unknown: give {asked}.")
        return
    shown = bill_table(prediction)
    plain_table(shown)
    downloads(shown, beside("bill", prediction))
    st.caption(
        "The bill falls only when a replica leaves. Every replica is taken as fully busy at the "
        "batch given: no headroom for bursts."
    )
    if prediction.plain_error:
        st.caption(
            f"A range, because the plain step is computed (±{prediction.plain_error:.0%}) and "
            "the speedup has an interval. The change is in the middle of both, at the same step."
        )
