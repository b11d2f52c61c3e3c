"""Where load kills it, for a model of one's own: speedup over batch and the line that starts vLLM.

python -m docs.examples.batch_cliff [CONFIG.JSON]
"""

import json
import sys
from pathlib import Path

import specmath
from specmath.launch import launch
from specmath.load import load_study
from specmath.scenario.endpoint import resolve

# The fields of a config.json that shape a model; a path to the whole file does as well.
CONFIG = json.dumps({
    "model_type": "llama", "hidden_size": 5120, "intermediate_size": 13824,
    "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8,
    "vocab_size": 128256, "torch_dtype": "bfloat16",
})  # fmt: skip


def main(config: str = CONFIG) -> None:
    scenario = specmath.Scenario(
        alpha=0.7, gamma=4, gpu="H100 SXM", model=config, draft="Llama-3.2-1B", context_tokens=2048
    )
    endpoint = resolve(scenario)
    study = load_study(endpoint)
    for batch, speedup, best in zip(
        study.batches, study.at_gamma[:, study.own], study.recommended_gamma[:, study.own],
        strict=True,
    ):  # fmt: skip
        print(f"batch {batch:4d}  γ=4 {speedup:.3f}×  recommended γ={best}")
    print(f"memory holds {study.tax.speculative_batch} sequences, {study.tax.plain_batch} without")
    print(launch(endpoint, study.gamma, schedule=study.schedule).command)


if __name__ == "__main__":
    main(*(Path(path).read_text("utf-8") for path in sys.argv[1:]))
