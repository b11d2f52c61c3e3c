"""The search over deployments: nothing is better than what it finds."""

from __future__ import annotations

import itertools
import json

import pytest

from specmath.capacity import capacity
from specmath.checks import InputError
from specmath.cli import main
from specmath.deployments import LOADS, Deployment, Search, deployments, gpus_for
from specmath.predict import predict
from specmath.scenario.files import build
from specmath.tables.deployments import cheapest_table, front_table
from specmath.words.deployments import search_sentence

ASKED = {
    "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7,
    "prompt_tokens": 1024, "output_tokens": 256, "slo_tpot_ms": 12, "headroom": 0.1,
    "demand_requests_per_second": 50,
}  # fmt: skip
GPUS = ("H100 SXM", "L40S")


@pytest.fixture(scope="module")
def found() -> Search:
    return deployments(build(ASKED), gpus=GPUS, parallel=(1, 2))


def test_nothing_on_the_front_is_beaten(found: Search) -> None:
    for one, other in itertools.permutations(found.front, 2):
        faster = other.tpot.value < one.tpot.value
        assert not (faster and other.usd_per_million.value <= one.usd_per_million.value)
    times = [one.tpot.value for one in found.front]
    assert times == sorted(times)
    assert max(times) <= 12e-3


def test_speculation_never_makes_the_front_worse(found: Search) -> None:
    """Plain decoding is among what is looked at."""
    for plain in found.plain_front:
        assert any(
            one.tpot.value <= plain.tpot.value * 1.06
            and one.usd_per_million.value <= plain.usd_per_million.value * (1 + 1e-9)
            for one in found.front
        )


def _again(one: Deployment) -> None:
    """The same server by itself, through `predict` at that rate."""
    s = one.scenario.model_copy(update={"request_rate": one.rate})
    p = predict(s)
    tpot = p.tpot if one.gamma else p.tpot_plain
    assert tpot.value == pytest.approx(one.tpot.value, rel=1e-3)
    dollars = one.gpus * s.usd_per_hour / 3600 / (one.rate * s.output_tokens) * 1e6
    assert one.usd_per_million.value == pytest.approx(dollars)


def test_each_is_what_a_prediction_of_it_says(found: Search) -> None:
    for one in (*found.front[::4], *found.cheapest[:3]):
        _again(one)


def test_the_cheapest_by_brute_force(found: Search) -> None:
    """Every GPU, number and γ of the scenario's own draft through `capacity`, one at a time: none
    has a smaller bill."""
    bills = []
    for gpu, n in itertools.product(GPUS, (1, 2)):
        price = predict(build({**ASKED, "gpu": gpu})).scenario.usd_per_hour
        for gamma in range(9):
            asked = build({**ASKED, "gpu": gpu, "tensor_parallel": n, "gamma": gamma,
                           "usd_per_hour": price})  # fmt: skip
            arm = capacity(predict(asked)).speculative
            if arm.usd_per_month is not None:
                bills.append(arm.usd_per_month.value)
    assert found.cheapest[0].usd_per_month <= min(bills) * (1 + 1e-9)


def test_a_found_server_has_the_bill_of_its_capacity(found: Search) -> None:
    """The page of how many GPUs, of the same server, says as many replicas and dollars."""
    for one in found.cheapest:
        s = one.scenario.model_copy(update={"request_rate": None, "gamma": one.gamma})
        arm = capacity(predict(s)).speculative
        assert arm.replicas.value == one.replicas
        assert arm.usd_per_month.value == pytest.approx(one.usd_per_month)
        assert (1.0 - s.headroom) * arm.within.value == pytest.approx(one.rate, rel=2e-3)


def test_what_was_looked_at_is_counted(found: Search) -> None:
    """One GPU, drafts of two kinds at least, and γ from 0: not fewer than that many loads, and no
    more than all γ there are."""
    assert 2 * LOADS * found.servers < found.looked_at <= 17 * LOADS * found.servers
    assert found.servers + found.left_out >= len(GPUS) * 2
    assert f"{found.looked_at:,} deployments" in search_sentence(found)


def test_rows_and_the_command_line(found: Search, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--{n.replace('_', '-')}={v}" for n, v in ASKED.items()]
    searched = [*(f"--on={gpu}" for gpu in GPUS), "--gpus-of-a-replica=1", "--gpus-of-a-replica=2"]
    for by, table in (("cheapest", cheapest_table), ("front", front_table)):
        main(["deployments", *words, *searched, "--by", by, "--format", "json"])
        rows = json.loads(capsys.readouterr().out)
        assert rows == json.loads(json.dumps(table(found).rows()))


def test_refusals() -> None:
    large = build({**ASKED, "model": "Llama-3.3-70B", "tensor_parallel": 4})
    with pytest.raises(InputError, match=r"no GPU of RTX 4060 Ti 16GB holds Llama-3\.3-70B on 1"):
        deployments(large, gpus=("RTX 4060 Ti 16GB",), parallel=(1,))
    with pytest.raises(InputError, match="usd_per_hour must be known"):
        deployments(build(ASKED), gpus=("M3 Ultra",))
    with pytest.raises(InputError, match="a search needs gpu, model and draft"):
        deployments(build({"alpha": 0.8, "c": 0.1}))
    assert "H100 SXM" in gpus_for(build(ASKED))
