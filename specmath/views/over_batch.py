"""The table over batch: step time, verification, drafting, speedup, recommended γ and cost."""

from __future__ import annotations

import numpy as np

from specmath.predict import Prediction
from specmath.serving.study import LoadStudy, load_study
from specmath.sheets.columns import SPEEDUP, column, field_input
from specmath.sheets.tables import Chart, Column, Input, Table

__all__ = ["batch_table"]


def batch_table(prediction: Prediction) -> Table:
    """One row a batch at the scenario's context and γ; step times are constants, the rest live."""
    study, s = load_study(prediction.scenario), prediction.scenario
    plain = np.sum(list(study.plain_operators.values()), axis=0)
    step = np.sum(list(study.speculative_operators.values()), axis=0)
    tokens = float(prediction.halves.acceptance.tokens_per_step(study.gamma))
    best = study.recommended_gamma[:, study.own]
    columns = [
        column("batch", study.batches),
        column("plain_step_ms", plain * 1e3),
        column("speculative_step_ms", step * 1e3),
        column("step_cost", step / plain, "{speculative_step_ms}/{plain_step_ms}"),
        column("walltime_improvement", tokens / (step / plain), SPEEDUP),
        column("recommended_gamma", best),
        column("recommended_speedup", study.speedup[np.arange(len(best)), study.own, best]),
        column(
            "tokens_per_second",
            study.batches * tokens / step,
            "{batch}*{tokens_per_step}*1000/{speculative_step_ms}",
        ),
    ]
    inputs: list[Input] = [field_input("tokens_per_step", tokens, "computed")]
    if s.usd_per_hour is not None:
        columns += _money(study, prediction, tokens, plain, step)
        names = ("tensor_parallel", "draft_gpus", "usd_per_hour")
        inputs += [field_input(name, getattr(s, name), "assumed") for name in names]
    columns.append(column("fits_memory", ["yes" if f else "no" for f in study.fits[:, study.own]]))
    return Table(
        "Speculation over batch",
        "batch",
        tuple(columns),
        tuple(inputs),
        Chart("batch", ("walltime_improvement",), "× plain decoding"),
    )


def _money(
    study: LoadStudy, prediction: Prediction, tokens: float, plain: np.ndarray, step: np.ndarray
) -> list[Column]:
    s = prediction.scenario
    each_hour = (s.usd_per_hour or 0.0) / 3600 * 1e6
    with_draft = s.tensor_parallel + s.draft_gpus * (study.gamma > 0)
    price = "{usd_per_hour}/3600*1000"
    return [
        column(
            "usd_per_million_tokens_plain",
            s.tensor_parallel * each_hour * plain / study.batches,
            f"{{tensor_parallel}}*{price}*{{plain_step_ms}}/{{batch}}",
        ),
        column(
            "usd_per_million_tokens",
            with_draft * each_hour * step / tokens / study.batches,
            f"({{tensor_parallel}}+{{draft_gpus}})*{price}*{{speculative_step_ms}}"
            "/{tokens_per_step}/{batch}",
        ),
    ]
