"""logs, logs drift and review on the command line: formats, exit codes, messages."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from helpers.command_line import invoked
from helpers.drifting import vllm_log

from specmath.checks import InputError

SAMPLES = Path(__file__).parent / "data" / "log_samples"
CURRENT = str(SAMPLES / "vllm_v1_log_current.txt")
BENCH = SAMPLES / "vllm_bench_serve_result.json"


def ok(*arguments: str, stdin: bytes | None = None) -> str:
    result = invoked(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    """The message of an InputError: main() prints it to stderr and exits 2."""
    result = invoked(*arguments)
    assert isinstance(result.exception, InputError)
    assert result.stdout == ""
    return str(result.exception)


def test_one_reading_is_an_object() -> None:
    found = json.loads(ok("logs", CURRENT, "--format", "json"))
    wanted = {
        "engine", "format", "steps", "drafted", "accepted", "tokens_per_step", "survival",
        "alpha", "gamma", "coverage", "warnings", "answers", "gammas", "scenario",
    }  # fmt: skip
    assert wanted <= found.keys()
    # The four printed intervals added up: 612 + 1490 + … steps by their drafted tokens over 3.
    assert (found["steps"], found["drafted"], found["accepted"]) == (5187, 15561, 8452)
    assert found["tokens_per_step"] == pytest.approx(1 + 8452 / 5187)
    assert found["answers"][0]["headline"].startswith("No: 54.3%")
    assert [row["gamma"] for row in found["gammas"]] == list(range(8))
    names = {"gamma", "tokens_per_pass", "step_cost", "speedup", "low", "high", "from"}
    assert found["gammas"][0].keys() == names
    rates = [float(rate) for rate in found["scenario"]["rates"].split(",")]
    assert rates == pytest.approx(found["survival"], abs=1e-6)
    assert (found["scenario"]["gamma"], found["scenario"]["coverage"]) == (3, 1.0)


def test_several_readings_are_a_list() -> None:
    found = json.loads(ok("logs", str(SAMPLES / "sglang_log.txt"), "--format", "json"))
    assert [one["engine"] for one in found] == ["sglang"] * 3


def test_csv_has_one_row_a_reading() -> None:
    rows = list(csv.DictReader(io.StringIO(ok("logs", CURRENT, "--format", "csv"))))
    assert len(rows) == 1
    assert rows[0]["steps"] == "5187"
    assert rows[0]["survival"].count(";") == 2


def test_words() -> None:
    text = ok("logs", CURRENT, "--baseline-itl-ms", "25", "--tpot-ms", "14", "--c", "0.05")
    for part in ("Tokens per step, bonus included", "Conditional rate", "Raise or lower γ?",
                 "Is my printed acceptance rate α?", "plain steps", "Is the drafter broken",
                 "rates cut", "extrapolated"):  # fmt: skip
        assert part in text


def test_gzip_standard_input_and_two_dumps(tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(Path(CURRENT).read_bytes()))
    for text in (
        ok("logs", str(packed), "--format", "json"),
        ok("logs", "-", "--format", "json", stdin=Path(CURRENT).read_bytes()),
    ):
        assert json.loads(text)["steps"] == 5187
    dumps = [str(SAMPLES / f"vllm_v1_prometheus_t{i}.txt") for i in (0, 1)]
    *engines, change = json.loads(ok("logs", *dumps, "--format", "json"))
    assert change["steps"] == 14690 - 10400
    assert [each["lane"]["engine"] for each in engines] == ["0", "1"]
    assert sum(each["steps"] for each in engines) == change["steps"]


def test_gamma_where_the_log_lacks_it() -> None:
    path = str(SAMPLES / "llamacpp_server_log_2024-11.txt")
    assert json.loads(ok("logs", path, "--format", "json"))["alpha"] is None
    found = json.loads(ok("logs", path, "--gamma", "4", "--format", "json"))
    # 154 passes could have held that many drafts of 2.4 tokens or 93 of all four: no one α.
    assert found["alpha"] is None
    low, high = found["alpha_interval"]
    assert low == pytest.approx(206 / (206 + 154))
    assert sum(high**i for i in range(1, 5)) / 4 == pytest.approx(206 / 372)


def test_bad_input_exits_2_with_nothing_on_stdout(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("hello\n")
    assert "no speculation found" in refused("logs", str(nothing))
    assert invoked("logs", "missing.txt").exit_code == 2
    assert invoked("logs", CURRENT, "--gamma", "0").exit_code == 2
    assert "plain_ms" in refused("logs", CURRENT, "--baseline-itl-ms", "-1")
    assert "BASELINE and CURRENT, got 1" in refused("logs", "drift", CURRENT)
    untimed = str(SAMPLES / "sglang_meta_info.json")
    assert "baseline must tell" in refused("logs", CURRENT, "--baseline", untimed)


# ── drift ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, str]:
    made = {
        "steady": [0.7] * 40, "fallen": [0.7] * 20 + [0.5] * 20,
        "recovered": [0.7] * 10 + [0.5] * 10 + [0.75] * 20,
    }  # fmt: skip
    for name, rates in made.items():
        (tmp_path / name).write_text(vllm_log(rates))
    return {name: str(tmp_path / name) for name in made}


def test_drift_exit_codes(logs: dict[str, str]) -> None:
    steady = invoked("logs", "drift", logs["steady"], logs["steady"])
    assert steady.exit_code == 0
    assert "No fall beyond chance" in steady.stdout
    fallen = invoked(
        "logs", "drift", logs["steady"], logs["fallen"], "--c", "0.1", "--target-ms", "40"
    )  # fmt: skip
    assert fallen.exit_code == 1
    assert "since 09-14 10:20:10" in fallen.stdout
    # 1.7 → 1.5 tokens in a step of 1.1 × 40 ms: 25.9 → 29.3 ms.
    assert "25.9 ms → 29.3 ms" in fallen.stdout
    assert "The traffic moved" in fallen.stdout
    assert invoked("logs", "drift", CURRENT, CURRENT).exit_code == 3


def test_a_fall_that_has_ended_still_exits_1(logs: dict[str, str]) -> None:
    ended = invoked("logs", "drift", logs["steady"], logs["recovered"])
    assert ended.exit_code == 1
    assert "Acceptance fell for a while: 1.70 → 1.50" in ended.stdout
    assert "from 09-14 10:10:10 to 09-14 10:19:10" in ended.stdout
    assert "It has ended: 1.75 since." in ended.stdout
    assert "The alarm would first have been raised at 09-14 10:1" in ended.stdout


def pages(rates: list[float]) -> str:
    """A metrics page after every 500 steps at γ=1, one below the other."""
    found, steps, accepted = [], 0, 0
    for number, rate in enumerate(rates):
        steps, accepted = steps + 500, accepted + round(500 * rate) + (0, 4, -3)[number % 3]
        found += [
            f"vllm:spec_decode_{name}_total{{model_name=\"m\"}} {value}.0"
            for name, value in (
                ("num_drafts", steps), ("num_draft_tokens", steps),
                ("num_accepted_tokens", accepted),
            )
        ]  # fmt: skip
        found.append(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="m",position="0"}} '
            f"{accepted}.0"
        )
    return "\n".join(found)


def test_pages_in_one_file_are_windows(tmp_path: Path) -> None:
    """What the answer to two single pages asks for: it then can tell."""
    for name, rates in (("week", [0.7] * 30), ("today", [0.7] * 10 + [0.5] * 20)):
        (tmp_path / name).write_text(pages(rates))
    fallen = invoked("logs", "drift", str(tmp_path / "week"), str(tmp_path / "today"))
    assert fallen.exit_code == 1
    assert "9 baseline blocks of 3 windows, 9 current ones" in fallen.stdout


def test_single_pages_cannot_tell_but_for_an_assumption() -> None:
    dumps = [str(SAMPLES / f"vllm_v1_prometheus_t{i}.txt") for i in (0, 1)]
    alone = invoked("logs", "drift", *dumps)
    assert alone.exit_code == 3
    for part in ("metrics scraped at least 19 times", "design effect", "curl -s", "restarted"):
        assert part in alone.stdout
    assumed = invoked("logs", "drift", *dumps, "--design-effect", "2")
    assert assumed.exit_code == 1
    assert "which is assumed" in assumed.stdout
    assert "design_effect" in refused("logs", "drift", *dumps, "--design-effect", "0.5")


def test_drift_as_json(logs: dict[str, str]) -> None:
    result = invoked("logs", "drift", logs["steady"], logs["fallen"], "--format", "json")
    found = json.loads(result.stdout)
    assert found["fallen"] is True
    assert found["p_value"] < 0.01
    assert found["causes"][0]["seen"]


def test_rule() -> None:
    text = ok("logs", "drift", "--rule", "--below", "2.3", "--rule-engine", "llama.cpp")
    assert text.startswith("groups:\n")
    assert "llamacpp:spec_decode_num_drafts_total" in text


# ── review ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def plain(tmp_path: Path) -> str:
    result = json.loads(BENCH.read_text())
    slow = {k: v for k, v in result.items() if not k.startswith("spec")} | {"mean_tpot_ms": 11.0}
    (tmp_path / "plain.json").write_text(json.dumps(slow))
    return str(tmp_path / "plain.json")


def test_review(plain: str) -> None:
    text = ok("review", plain, str(BENCH), "--c", "0.1")
    assert text.startswith("Keep it: 2.06× faster.")
    assert "Predicted speedup" in text
    found = json.loads(ok("review", plain, str(BENCH), "--c", "0.1", "--format", "json"))
    assert found["decision"] == "keep"
    assert found["predicted"]["value"] == pytest.approx(2.7391428571428573 / 1.3)
    rows = list(csv.DictReader(io.StringIO(ok("review", plain, str(BENCH), "--format", "csv"))))
    assert rows[0]["decision"] == "keep"


def test_review_of_a_plan(plain: str, tmp_path: Path) -> None:
    from specmath.scenario import Scenario
    from specmath.scenario.files import to_toml

    plan = tmp_path / "plan.toml"
    plan.write_text(to_toml(Scenario(alpha=0.8, gamma=3, c=0.1)))
    found = json.loads(
        ok("review", plain, str(BENCH), "--scenario", str(plan), "--format", "json")
    )  # fmt: skip
    assert found["predicted"]["value"] == pytest.approx((1 - 0.8**4) / 0.2 / 1.3)
    assert found["predicted"]["basis"] == (
        "as planned; verification and overhead, which you did not give, from 0 to 0.51 plain steps "
        "a step"
    )


def test_baseline_file(plain: str) -> None:
    text = ok("logs", str(BENCH), "--baseline", plain, "--c", "0.1")
    assert "Observed: 2.06× faster (plain TPOT over TPOT)" in text
