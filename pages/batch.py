"""Where does load kill it? Speedup over batch and context, operators, memory, the schedule."""

from pages.ui.frame import require_frame

require_frame()

from pages.ui import furniture  # noqa: E402
from pages.ui.hardware import needs_hardware  # noqa: E402
from pages.ui.load import show_memory, show_schedule  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.charts.load import (  # noqa: E402
    gamma_heat,
    operators_over_batch,
    speedup_over_batch,
)
from specmath.load import load_study  # noqa: E402
from specmath.tables import batch_table  # noqa: E402
from specmath.words.load import (  # noqa: E402
    context_sentence,
    held_sentence,
    load_sentence,
    roof_sentence,
)

needs_hardware()
found, study = prediction(), load_study(prediction().endpoint)
furniture.say(load_sentence(study), "speed")

furniture.chart(
    speedup_over_batch(study),
    f"Speedup over the batch that is held, at γ={study.gamma}, by context",
    f"{held_sentence(found)} {context_sentence(study)} Shaded: the range at your context. Hollow "
    "points: more sequences than the memory holds.",
)
furniture.assumptions(found)
furniture.chart(
    gamma_heat(study),
    "The recommended γ over the batch that is held, and context",
    "The smallest γ within 2% of the fastest; 0: plain decoding is faster. In brackets: more "
    "sequences than the memory holds.",
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
show_schedule(study)
furniture.next_question("cost", "What will it cost?")
