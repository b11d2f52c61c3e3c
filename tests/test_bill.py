"""The bill: whole replicas by hand, extra GPUs, served hardware, the price of a millisecond."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath import models
from specmath.bill import Bill, bill, millisecond_price
from specmath.cli import main
from specmath.estimate import Estimate
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.server import error_of, pair_of
from specmath.serving import ServedPair
from specmath.serving.memory import Memory
from specmath.steptime import Placement
from specmath.tables import bill_table
from specmath.words.bill import bill_sentence, energy_words, promised_words, served_words

TIMES: dict[str, Any] = {
    "accepted_per_step": 3,
    "measured_gamma": 4,
    "gamma": 4,
    "target_ms": 40,
    "draft_ms": 8,
    "usd_per_hour": 2.5,
    "headroom": 0,
}
SERVED: dict[str, Any] = {
    "alpha": 0.8,
    "gamma": 4,
    "gpu": "H100 SXM",
    "model": "Llama-3.1-70B",
    "draft": "Llama-3.2-1B",
    "tensor_parallel": 4,
    "batch": 16,
    "decode_only": "yes",
    "headroom": 0,
}


def test_fleet_by_hand() -> None:
    """Batch 8: 8/40 ms = 200 tokens/s plain, 8·4 in 72 ms = 444.4 speculative."""
    found = bill(predict(Scenario(**TIMES, batch=8, demand_tokens_per_second=1000)))
    assert found
    assert found.plain.tokens_per_second.value == pytest.approx(200)
    assert found.speculative.tokens_per_second.value == pytest.approx(32 / 0.072)
    assert (found.plain.replicas.value, found.speculative.replicas.value) == (5, 3)
    assert found.plain.usd_per_month.value == pytest.approx(5 * 2.5 * 730)
    assert found.speculative.usd_per_month.value == pytest.approx(3 * 2.5 * 730)


def test_a_promise_that_the_bill_does_not_look_at_is_said() -> None:
    """The bill is the same with it, and a line says so; without one there is none."""
    asked = SERVED | {"demand_requests_per_second": 5, "prompt_tokens": 1000}
    free, promised = (Scenario(**asked, **more) for more in ({}, {"slo_ttft_ms": 1.0}))
    bills = [bill(predict(s)) for s in (free, promised)]
    assert bills[0].speculative.replicas == bills[1].speculative.replicas
    assert promised_words(free) == ""
    assert promised_words(promised).endswith(
        "(First token at most 1.00 ms): How many GPUs? and specmath capacity do."
    )
    # They compute their steps: of times that were given they tell nothing.
    assert "capacity do, of a GPU and models." in promised_words(Scenario(**TIMES, slo_tpot_ms=9))


def test_the_command_line_says_what_the_bill_leaves_out(capsys: Any) -> None:
    words = ("cost", "--gpu", "h100", "--model", "Llama-3.1-8B", "--draft", "eagle3", "--alpha",
             "0.7", "--gamma", "4", "--prompt-tokens", "1024", "--slo-tpot-ms", "10")  # fmt: skip
    main([*words])
    assert "does not look at what is promised" in capsys.readouterr().out


def test_the_bill_falls_only_when_a_replica_leaves() -> None:
    """2.2 times the speed and the same bill, while one replica is enough either way."""
    found = bill(predict(Scenario(**TIMES, batch=8, demand_tokens_per_second=150)))
    assert found
    assert found.plain.replicas.value == found.speculative.replicas.value == 1
    assert found.plain.usd_per_month.value == found.speculative.usd_per_month.value


def test_the_drafts_own_gpus_are_billed_with_speculation_only() -> None:
    s = Scenario(
        **TIMES, overhead=0.1, batch=8, tensor_parallel=2, draft_gpus=1,
        demand_tokens_per_second=200.0001,
    )  # fmt: skip
    found = bill(predict(s))
    assert found
    assert found.plain.usd_per_month.value == pytest.approx(2 * 2 * 2.5 * 730)
    assert found.speculative.usd_per_month.value == pytest.approx(1 * 3 * 2.5 * 730)
    off = bill(predict(s.model_copy(update={"gamma": 0})))
    assert off
    assert off.speculative == off.plain


@given(
    demand=st.floats(1, 1e7),
    batch=st.integers(1, 512),
    gamma=st.integers(0, 8),
    price=st.floats(0.1, 50),
)
def test_enough_replicas_and_not_one_more(
    demand: float, batch: int, gamma: int, price: float
) -> None:
    s = Scenario(
        **TIMES | {"gamma": gamma, "batch": batch, "usd_per_hour": price},
        demand_tokens_per_second=demand,
    )
    found = bill(predict(s))
    assert found
    for fleet in (found.plain, found.speculative):
        assert fleet.replicas.value * fleet.tokens_per_second.value >= demand * (1 - 1e-9)
        assert (fleet.replicas.value - 1) * fleet.tokens_per_second.value < demand * (1 + 1e-9)


def test_served_fleet_from_step_seconds() -> None:
    """70B on 4 H100, batch 16: tokens/s = batch τ / step; dollars an hour for 4 GPUs."""
    s = Scenario(**SERVED, demand_tokens_per_second=5000)
    p = predict(s)
    step = pair_of(s)
    assert step == ServedPair(
        Placement(models.find("Llama-3.1-70B"), step.place.gpu, 4, None), step.drafter, 16, 1024
    )
    rate = 16 * (1 - 0.8**5) / 0.2 / float(step.seconds(4))
    found = bill(p)
    assert found
    assert found.speculative.tokens_per_second.value == pytest.approx(rate)
    replicas = math.ceil(5000 / rate)
    assert found.speculative.replicas.value == replicas
    assert found.speculative.usd_per_month.value == pytest.approx(
        replicas * 4 * (s.usd_per_hour or 0) * 730
    )
    # Dollars per million tokens are the same fleet's, fully busy.
    assert p.usd
    assert p.usd.value == pytest.approx(4 * (s.usd_per_hour or 0) / 3600 / rate * 1e6)


# ── what is to be served ─────────────────────────────────────────────────────────────────────


def billed(**more: Any) -> Bill:
    found = bill(predict(Scenario(**TIMES | more)))
    assert found is not None
    return found


def value(number: Estimate | None) -> float:
    assert number is not None
    return number.value


def test_requests_tokens_and_replicas_say_the_same_demand() -> None:
    """25 tokens/s a replica, a tenth kept free: 8 carry 180 tokens/s, 0.9 requests of 200."""
    same = {"headroom": 0.1, "output_tokens": 200}
    each = [
        billed(**same, replicas=8),
        billed(**same, demand_tokens_per_second=180),
        billed(**same, demand_requests_per_second=0.9),
    ]
    for found in each:
        assert value(found.demand) == pytest.approx(180)
        assert value(found.plain.replicas) == 8
        assert value(found.speculative.replicas) == 4  # 160/72 × 25 × 0.9 = 50: 3.6


def test_headroom_is_kept_free_of_each_replica() -> None:
    """200 tokens/s a replica; 1000 need 5, and with a fifth kept free 1000 / 160 = 6.25, so 7."""
    found = billed(batch=8, demand_tokens_per_second=1000, headroom=0.2)
    assert value(found.plain.needed) == pytest.approx(6.25)
    assert value(found.plain.replicas) == 7
    assert value(found.plain.use) == pytest.approx(1000 / 1400)
    # 32/72 ms = 444.4 a replica, 355.6 with headroom: 2.8, so 3.
    assert value(found.speculative.replicas) == 3


def test_the_bill_per_million_tokens_by_hand() -> None:
    """5 replicas at $2.5 are $9125 a month; 1000 tokens/s are 2628 million: $3.472."""
    found = billed(batch=8, demand_tokens_per_second=1000).plain
    assert value(found.usd_per_month) == pytest.approx(9125)
    assert value(found.billed_per_million) == pytest.approx(9125 / 2628)
    assert found.billed_per_million_total is None, "the prompt's length is not known"
    # Kept busy, all 200 tokens/s of a replica are sold: $2.5 for 720,000 tokens.
    assert value(found.usd_per_million) == pytest.approx(2.5 / 0.72)
    assert value(found.tokens_per_dollar) == pytest.approx(720_000 / 2.5)
    assert found.wh_per_million is None, "no GPU, no power"


def test_prompts_count_as_tokens_where_their_length_is_known() -> None:
    """Three times as long as the output: a quarter of the price for every token."""
    lengths = {"prompt_tokens": 768, "output_tokens": 256}
    found = bill(predict(Scenario(**SERVED, **lengths, replicas=3)))
    assert found
    for fleet in (found.plain, found.speculative):
        assert value(fleet.usd_per_million_total) == pytest.approx(value(fleet.usd_per_million) / 4)
        assert value(fleet.billed_per_million_total) == pytest.approx(
            value(fleet.billed_per_million) / 4
        )


def test_energy_by_hand() -> None:
    """An H100 may draw 700 W: four of them 2800 W over the tokens a second of the replica."""
    found = bill(predict(Scenario(**SERVED)))
    assert found
    for fleet in (found.plain, found.speculative):
        rate = value(fleet.tokens_per_second)
        assert value(fleet.wh_per_million) == pytest.approx(2800 / rate / 3600 * 1e6)
        assert fleet.wh_per_million is not None
        assert fleet.wh_per_million.low == pytest.approx(
            2800 / (fleet.tokens_per_second.high or 0) / 3600 * 1e6
        )
    own = bill(predict(Scenario(**SERVED | {"gpu": "custom:8,2500,288"})))
    assert own
    assert own.plain.wh_per_million is None
    assert "power of custom:8,2500,288 was not read" in energy_words(
        predict(Scenario(**SERVED | {"gpu": "custom:8,2500,288"}))
    )


def test_replicas_that_run_today_cancel_the_error_of_the_plain_step() -> None:
    """Eight run, whatever they carry; with speculation ⌈8 / speedup⌉."""
    p = predict(Scenario(**SERVED, replicas=8))
    found = bill(p)
    assert found
    plain, ours = found.plain.replicas, found.speculative.replicas
    assert plain
    assert (plain.value, plain.low, plain.high) == (8, 8, 8)
    assert found.demand
    assert found.demand.low is not None
    speedup = p.speedup
    assert ours
    assert (ours.value, ours.low, ours.high) == tuple(
        math.ceil(8 / end) for end in (speedup.value, speedup.high, speedup.low)
    )


def test_an_open_loop_is_billed_at_the_largest_rate_of_each_arm() -> None:
    """λ_max of the law times N, in either arm; its range that of a full batch."""
    s = Scenario(
        **SERVED | {"batch": 1, "decode_only": "no"}, request_rate=2.0, prompt_tokens=500,
        output_tokens=200, demand_requests_per_second=100,
    )  # fmt: skip
    p = predict(s)
    found, load = bill(p), p.endpoint.load
    assert found
    assert load
    for gamma, fleet in ((0, found.plain), (4, found.speculative)):
        most = float(load.most_requests[gamma])
        rate = fleet.tokens_per_second
        assert rate.value == pytest.approx(most * 200)
        assert value(fleet.replicas) == math.ceil(100 / most)
        assert rate.low is not None
        memory = Memory.of(p.endpoint.pair) if gamma else Memory(p.endpoint.pair.place)
        batch = memory.largest_batch(s.context, gamma)
        full = predict(s.model_copy(update={"request_rate": None, "batch": batch}))
        tpot = full.tpot if gamma else full.tpot_plain
        # A full batch gives B / TPOT: the law's λ_max N but for one of B and one of N.
        assert rate.value == pytest.approx(batch / tpot.value, rel=0.01)
        assert rate.low / rate.value == pytest.approx(tpot.value / tpot.high)


def test_what_is_unknown_stays_unknown() -> None:
    """Without a demand no whole replicas, without a price no dollars, without a time no bill."""
    free = billed()
    assert free.demand is None
    assert free.plain.replicas is None
    assert value(free.plain.usd_per_million) == pytest.approx(2.5 / 3600 / 25 * 1e6)
    unpriced = billed(usd_per_hour=None, demand_tokens_per_second=1000)
    assert value(unpriced.plain.replicas) == 40
    assert unpriced.plain.usd_per_month is unpriced.plain.usd_per_million is None
    known = {k: v for k, v in TIMES.items() if k not in ("draft_ms", "target_ms")} | {"c": 0.2}
    assert bill(predict(Scenario(**known, demand_tokens_per_second=1000))) is None
    nothing = billed(demand_tokens_per_second=0)
    assert nothing.plain.billed_per_million is None


def test_two_demands_are_refused() -> None:
    with pytest.raises(ValueError, match="must be one of them"):
        Scenario(**TIMES, demand_tokens_per_second=1000, replicas=3)


# ── in words and rows ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"overhead": 0.1, "replicas": 10},
         ["5 replicas with γ=4, 10 without: $9,125 a month instead of $18,250 (−50%)."]),
        ({"demand_tokens_per_second": 150, "batch": 8},
         ["No replica leaves: 1 replica with γ=4, 1 without. The bill stays at $1,825 a month."]),
        ({"replicas": 2, "overhead": 0.1, "usd_per_hour": None},
         ["1 replica with γ=4, 2 without. Dollars are unknown"]),
        ({}, ["$12.5 to $16.0 instead of $27.8 (−55% to −42%)", "only when a replica leaves"]),
        ({"replicas": 10, "gamma": 0}, ["Without speculation: $18,250 a month."]),
        ({"usd_per_hour": 0, "replicas": 10, "overhead": 0.1}, ["The bill stays at $0 a month."]),
        ({"usd_per_hour": 0}, ["for $0 instead of $0."]),
        ({"usd_per_hour": None}, ["Dollars are unknown until the price of a GPU hour"]),
        ({"accepted_per_step": 0.9, "replicas": 30}, ["leaves or more are needed: 29 to 37"]),
        ({"accepted_per_step": 0.8, "replicas": 30}, ["No replica leaves, more may be needed: 30"]),
        ({"accepted_per_step": 1.1, "replicas": 30}, ["open whether a replica leaves"]),
    ],
)  # fmt: skip
def test_the_bill_in_a_sentence(more: dict[str, Any], says: list[str]) -> None:
    p = predict(Scenario(**TIMES | more))
    said = bill_sentence(p, bill(p))
    assert all(words in said for words in says), said


def test_what_is_assumed_of_the_bill_is_said() -> None:
    s = Scenario(**{k: v for k, v in TIMES.items() if k != "headroom"}, replicas=3)
    assert "20% of what each replica can give is kept free (assumed)." in served_words(s, None)
    given = s.model_copy(update={"headroom": 0.3})
    assert served_words(given, None) == "30% of what each replica can give is kept free."


def test_the_table_holds_both_fleets_with_their_ends() -> None:
    p = predict(Scenario(**SERVED, demand_tokens_per_second=20_000, prompt_tokens=500))
    found = bill(p)
    assert found
    rows = {str(row["quantity"]): row for row in bill_table(found).rows()}
    month = rows["Bill a month (730 h)"]
    assert month["plain"] == value(found.plain.usd_per_month)
    assert month["speculative_high"] == found.speculative.usd_per_month.high
    assert rows["GPUs"]["plain"] == 4 * value(found.plain.replicas)
    assert rows["Use of the replicas, %"]["speculative"] == 100 * value(found.speculative.use)
    assert len(rows) == 11
    free = bill(predict(Scenario(**SERVED)))
    assert free
    assert len(bill_table(free)) == 5, "no demand, no whole replicas"


def test_price_of_a_millisecond() -> None:
    """Extra dollars per million over the ms saved; none where the cost falls."""
    assert millisecond_price(predict(Scenario(**TIMES))) is None, "cheaper and faster: no price"
    p = predict(Scenario(**TIMES, tensor_parallel=1, draft_gpus=2, batch=8))
    price = millisecond_price(p)
    # $2.5/h on one GPU at 200 tokens/s; $7.5/h on three at 32/72 ms; 40 against 18 ms a token.
    plain, speculative = (usd / 3600 * 1e6 for usd in (2.5 / 200, 7.5 / (32 / 0.072)))
    assert price == pytest.approx((speculative - plain) / 22)
    assert millisecond_price(predict(Scenario(alpha=0.8, gamma=4, c=0.1))) is None


def test_the_bill_of_a_computed_step_is_a_range() -> None:
    """70B on 4 H100: the error of the plain step follows into the fleet; the change of a replica is
    that of the speedup, whatever the plain step."""
    p = predict(Scenario(**SERVED, demand_tokens_per_second=20_000))
    found = bill(p)
    assert found
    assert p.tpot_plain
    assert p.tpot
    plain, ours = found.plain.replicas, found.speculative.replicas
    assert (plain.low, plain.high) == tuple(
        math.ceil(20_000 * end / 16) for end in (p.tpot_plain.low, p.tpot_plain.high)
    )
    low, _ = error_of(pair_of(p.scenario)).plain
    assert p.tpot_plain.low == pytest.approx(p.tpot_plain.value * low, rel=0.01)
    assert (ours.low, ours.high) == tuple(
        math.ceil(20_000 * end / 16) for end in (p.tpot.low, p.tpot.high)
    )
    gain = found.speculative.tokens_per_second.with_(
        found.plain.tokens_per_second, lambda a, b: a / b
    )
    assert (gain.low, gain.high) == pytest.approx((p.speedup.low, p.speedup.high))
    off = bill(predict(p.scenario.model_copy(update={"gamma": 0})))
    assert off
    same = off.speculative.replicas.with_(off.plain.replicas, lambda a, b: a - b)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_a_bill_without_anything_open_is_no_range() -> None:
    found = bill(predict(Scenario(**TIMES, overhead=0.1, demand_tokens_per_second=1000)))
    assert found
    assert found.speculative.replicas.low is None
    known = {k: v for k, v in TIMES.items() if k not in ("accepted_per_step", "measured_gamma")}
    open_alpha = predict(Scenario(**known, acceptance_form="range", demand_tokens_per_second=1000))
    found = bill(open_alpha)
    assert found
    assert found.plain.replicas.low is None, "times were given: only the speedup is open"
    assert found.speculative.tokens_per_second.low is not None
