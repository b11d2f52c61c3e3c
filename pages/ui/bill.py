"""The bill in whole replicas: what is served, the table, cost over load, a millisecond's price."""

import streamlit as st

from pages.ui import furniture
from pages.ui.furniture import downloads, plain_table, remarks, verbatim
from pages.ui.widgets import number
from specmath.bill import Bill, millisecond_price
from specmath.charts.load import cost_over_load
from specmath.frontier import frontier
from specmath.numbers import usd
from specmath.predict import Prediction
from specmath.tables import beside, bill_sheet, bill_table, load_table
from specmath.words.bill import (
    AT_A_RATE,
    ONLY_WHOLE,
    busy_words,
    energy_words,
    promised_words,
    served_words,
)
from specmath.words.load import cheapest_sentence


def demand_row() -> None:
    """What is to be served, in one of three ways, and what it is paid for."""
    with st.container(key="demand"):
        boxes = st.columns(5, vertical_alignment="bottom")
        for column, (name, label) in zip(boxes, BOXES.items(), strict=True):
            with column:
                number(name, label=label, part="bill")


BOXES = {
    "demand_requests_per_second": "Requests/s to serve",
    "demand_tokens_per_second": "or output tokens/s",
    "replicas": "or replicas you run",
    "headroom": "Headroom (share)",
    "usd_per_hour": "USD a GPU hour",
}


def show_bill(prediction: Prediction, found: Bill | None) -> None:
    """Replicas, dollars and energy, plain and speculative."""
    s = prediction.scenario
    st.markdown(verbatim(" ".join(filter(None, (served_words(s, found), promised_words(s))))))
    if found is None:
        return
    shown = bill_table(found)
    with st.container(key="wide_bill"):
        plain_table(shown)
    downloads(bill_sheet(prediction), beside("bill", prediction))
    remarks((ONLY_WHOLE, busy_words(prediction), energy_words(prediction)))
    if prediction.plain_error:
        st.caption(
            f"A range, because the plain step is computed (±{prediction.plain_error:.0%}) and "
            "the speedup has an interval. Changes are between fleets of the same plain step."
        )


def show_cost_over_load(prediction: Prediction) -> None:
    """With hardware: dollars over load, the cheapest point and the fastest."""
    s = prediction.scenario
    if not s.costs.computed:
        st.caption("With “From GPU, models and load” this page also shows cost over load.")
        return
    if s.usd_per_hour is None:
        st.markdown("Cost over load is unknown until the price of a GPU hour is given.")
        return
    found = frontier(prediction.endpoint)
    if found.loop == "open":
        st.markdown(verbatim(AT_A_RATE))
        return
    furniture.chart(
        cost_over_load(found, s.usd_per_hour),
        f"Cost per million output tokens over load, at γ={found.gamma}",
        f"{cheapest_sentence(found, s.usd_per_hour)} Hollow points: more than the memory holds.",
    )
    furniture.table(load_table(prediction))


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
