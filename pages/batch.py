"""Where does load kill it? Speedup and throughput over load, one γ or a schedule, memory."""

from pages.ui.frame import require_frame

require_frame()

from pages.ui import furniture  # noqa: E402
from pages.ui.hardware import needs_hardware  # noqa: E402
from pages.ui.load import show_choice, show_memory  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.charts.load import (  # noqa: E402
    gamma_heat,
    operators_over_batch,
    speedup_heat,
    speedup_over_load,
    throughput_latency,
)
from specmath.frontier import frontier  # noqa: E402
from specmath.load import load_study  # noqa: E402
from specmath.tables import batch_table, load_table  # noqa: E402
from specmath.words.load import (  # noqa: E402
    BOTH_AXES,
    context_sentence,
    held_sentence,
    load_sentence,
    loads_sentence,
    roof_sentence,
)

needs_hardware()
found, study = prediction(), load_study(prediction().endpoint)
over = frontier(found.endpoint)
furniture.say(load_sentence(over, study), "speed")
furniture.chart(
    speedup_over_load(over),
    f"Speedup over load, at γ={over.gamma}",
    f"{loads_sentence(over)} Hollow points: more sequences than the memory holds at once.",
)
furniture.chart(
    throughput_latency(over),
    "Throughput against latency, with and without speculation",
    "Each point is a load, named at the first, the last and yours. Up is cheaper, to the right is "
    "faster for each user: a curve that lies outside the other gives more of both.",
    height=440,
)
furniture.table(load_table(found))
furniture.assumptions(found)
show_choice(study)
furniture.chart(
    speedup_heat(study),
    f"Speedup over the batch that is held, and context, at γ={study.gamma}",
    f"{held_sentence(found)} {context_sentence(study)} Point at a cell for its range. In brackets: "
    "more sequences than the memory holds.",
    height=300,
)
furniture.chart(
    gamma_heat(study),
    "The recommended γ over the batch that is held, and context",
    f"The smallest γ within 2% of the fastest; 0: plain decoding is faster. {BOTH_AXES}",
    height=300,
)
furniture.chart(
    operators_over_batch(study),
    "What a step is spent on, over batch",
    f"{roof_sentence(study)} Each pair of bars is in plain steps of its own batch; point at one "
    "for milliseconds. Pale: more sequences than the memory holds.",
    height=460,
)
furniture.table(batch_table(found))
show_memory(study)
furniture.next_question("tails", "Slow requests (p99)")
