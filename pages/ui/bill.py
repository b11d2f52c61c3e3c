"""The bill in whole replicas and the price of a millisecond, in words and a small table."""

from collections.abc import Callable, Sequence

import streamlit as st

from pages.ui import furniture
from pages.ui.furniture import safe
from specmath.bill import Bill, bill, bill_ends, millisecond_price
from specmath.charts.load import cost_over_batch
from specmath.predict import Prediction
from specmath.serving.study import load_study
from specmath.serving.words import cheapest_sentence
from specmath.views import batch_table
from specmath.wording import change, significant, usd


def show_cost_over_batch(prediction: Prediction) -> None:
    """With hardware: dollars over batch, the cheapest point and the fastest."""
    s = prediction.scenario
    if s.draft_form != "hardware":
        st.caption("With “From GPU, models and batch” this page also shows cost over batch.")
        return
    if s.usd_per_hour is None:
        st.markdown("Cost over batch is unknown until the price of a GPU hour is given.")
        return
    study = load_study(s)
    usd_of_best = study.usd_per_million(s, study.recommended_gamma[:, study.own])
    furniture.chart(
        cost_over_batch(study, s),
        f"Cost per million output tokens over batch, at context {s.context_tokens:,}",
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
        s = prediction.scenario
        missing = {
            "the output tokens a second to serve (sidebar, Money)": s.demand_tokens_per_second,
            "the price of a GPU hour (sidebar, Money)": s.usd_per_hour,
            "the target's time in ms": prediction.tpot_plain,
        }
        asked = " and ".join(name for name, value in missing.items() if value is None)
        st.markdown(f"Unknown: give {asked}.")
        return
    ends = bill_ends(prediction) or (found,)
    rows = (
        (
            "Tokens/s of one replica",
            _span(significant, [each.plain.tokens_per_second for each in ends]),
            _span(significant, [each.speculative.tokens_per_second for each in ends]),
            _changes([_rates(each) for each in ends]),
        ),
        (
            "Replicas",
            _span(_whole, [each.plain.replicas for each in ends]),
            _span(_whole, [each.speculative.replicas for each in ends]),
            _span(_signed, [each.speculative.replicas - each.plain.replicas for each in ends]),
        ),
        (
            "Bill a month (730 h)",
            _span(usd, [each.plain.usd_per_month for each in ends]),
            _span(usd, [each.speculative.usd_per_month for each in ends]),
            _changes([_dollars(each) for each in ends]),
        ),
    )
    lines = ["| | Plain | Speculative | Change |", "|---|---:|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    st.markdown(safe("\n".join(lines)))
    st.caption(
        "The bill falls only when a replica leaves. Every replica is taken as fully busy at the "
        "batch given: no headroom for bursts."
    )
    if prediction.plain_error:
        middle = f"{found.plain.replicas:,} and {found.speculative.replicas:,} replicas"
        st.caption(
            safe(
                f"A range, because the plain step is computed (±{prediction.plain_error:.0%}) and "
                f"the speedup has an interval; in the middle {middle}, "
                f"{usd(found.plain.usd_per_month)} and {usd(found.speculative.usd_per_month)} a "
                "month. Changes are between fleets of the same plain step."
            )
        )


def _rates(each: Bill) -> tuple[float, float]:
    return each.speculative.tokens_per_second, each.plain.tokens_per_second


def _dollars(each: Bill) -> tuple[float, float]:
    return each.speculative.usd_per_month, each.plain.usd_per_month


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _signed(number: float) -> str:
    return f"{number:+,.0f}".replace("-", "−")


def _span(show: Callable[[float], str], values: Sequence[float]) -> str:
    """The least and the most, as `show` writes them; one where they read alike."""
    return " to ".join(dict.fromkeys((show(min(values)), show(max(values)))))


def _changes(pairs: Sequence[tuple[float, float]]) -> str:
    """The least and the most change from the second of a pair to the first."""
    ordered = sorted(pairs, key=lambda pair: pair[0] / pair[1])
    return " to ".join(dict.fromkeys(change(*pair) for pair in (ordered[0], ordered[-1])))
