"""From a vLLM log to γ: what the server's own lines say of the number of tokens to draft.

python -m docs.examples.log_to_gamma [LOG]
"""

import sys
from pathlib import Path

import specmath
from specmath.logs import read
from specmath.predict import of_endpoint
from specmath.review.gammas import gamma_rows
from specmath.review.into_scenario import endpoint_of

EXAMPLE = Path(specmath.__file__).parent / "data" / "example_vllm.log"

# What the log does not tell: the cost of a draft forward. Time yours, or give GPU and models.
COSTS = specmath.Scenario(acceptance_form="range", c=0.1)


def main(log: Path = EXAMPLE) -> None:
    reading = read(log)[0]
    print(f"{reading.engine}: γ={reading.gamma}, {reading.tokens_per_step:.3f} tokens a step")
    print(f"accepted ÷ drafted {reading.accepted_share:.3f} is not α, which is {reading.alpha:.3f}")

    endpoint = endpoint_of(reading, COSTS)
    for row in gamma_rows(reading, endpoint):
        print(f"γ={row.gamma}  {row.tokens_per_pass:.3f} tokens  {row.speedup:.3f}×  {row.source}")
    print(specmath.verdict(of_endpoint(endpoint)).headline)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
