"""The budget: how far γ may go before arithmetic or cost exceeds what is allowed."""

import streamlit as st

from pages.ui.state import touched
from specmath.checks import InputError
from specmath.numbers import change, faster
from specmath.predict import Prediction
from specmath.speculation import Budget

CHOICES = (
    ("Extra arithmetic per token allowed, %", "extra_operations", 50.0),
    ("Extra cost per token allowed, %", "extra_cost", 0.0),
)


def show_budget(prediction: Prediction) -> None:
    """Two boxes, and the largest γ within each budget."""
    for column, (label, name, default) in zip(st.columns(2), CHOICES, strict=True):
        with column:
            percent = st.number_input(
                label, value=default, step=5.0, format="%.6g", key=name, on_change=touched
            )
            if percent is None:
                st.caption("No budget given.")
                continue
            try:
                found = prediction.speculation.within(
                    gpu_ratio=prediction.gpu_ratio, **{name: percent / 100}
                )
            except InputError:
                st.error(f"{label} must be a finite number >= 0, got {percent:g}.")
                continue
            st.markdown(_sentence(found))
    st.caption(
        "Arithmetic: Theorem 3.11, what a compute-bound server bills. Cost: at your verification "
        "cost, the same price and the same batch, GPUs of the draft included."
    )


def _sentence(found: Budget) -> str:
    if found.gamma == 0:
        return "**No γ ≥ 1** keeps within it."
    arithmetic, cost = change(found.operations, 1.0), change(found.cost, 1.0)
    more = " or more" if found.beyond else ""
    return (
        f"**Largest γ: {found.gamma:,}{more}**: arithmetic {arithmetic}, cost {cost}, "
        f"{faster(found.speedup)}."
    )
