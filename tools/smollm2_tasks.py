"""Prompts on which the target writes the training text of its draft: this project's own templates.

Of the kinds that are measured (prose, code, json, grounded), but none of the measuring prompts of
specmath/data/smollm2_prompts.json, and none of their subjects.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["KINDS", "prompts"]

SUBJECTS = (
    "rivers", "volcanoes", "honey bees", "the printing press", "glaciers", "tea", "bicycles",
    "the moon's phases", "earthquakes", "bread", "maps", "sailing ships", "coral reefs", "clocks",
    "the steam engine", "whales", "chess", "vaccines", "rain forests", "the violin", "batteries",
    "deserts", "coffee", "photography", "the human heart", "trains", "spiders", "gravity", "paper",
    "owls", "solar panels", "tides", "rice farming", "bridges", "language", "memory", "the Romans",
    "recycling", "wolves", "lightning", "chocolate", "the telephone", "mountains", "dinosaurs",
    "money", "elections", "libraries", "football", "gardens", "computers", "the internet", "salt",
    "butterflies", "silk", "windmills", "the brain", "muscles", "stars", "comets", "magnets",
    "soap", "glass", "wool", "cheese", "olive trees", "penguins", "horses", "democracy", "music",
    "painting", "theatre", "castles", "pyramids", "canals", "airports", "fog", "snow", "atoms",
)  # fmt: skip
PEOPLE = (
    "a baker", "a young nurse", "a retired teacher", "two sisters", "a taxi driver", "a fox",
    "an old gardener", "a boy with a kite", "a robot", "a violin maker", "a tired detective",
    "a girl and her dog", "a fisherman", "a librarian", "a lost cat", "a farmer", "a pilot",
    "a shy dragon", "a clock repairer", "a new student",
)  # fmt: skip
EVENTS = (
    "finds an old letter", "misses the last train", "learns to swim", "plants a tree in winter",
    "opens a small shop", "hears a strange sound at night", "meets a friend from school",
    "builds a boat", "travels to the desert", "wins a prize by accident", "forgets a birthday",
    "repairs a broken radio", "moves to a big city", "discovers a hidden door", "gets lost in fog",
    "saves a bird", "writes a first poem", "cooks for the whole village",
)  # fmt: skip
AIMS = (
    "learn a new language", "save money", "prepare for a job interview", "grow tomatoes",
    "run a first marathon", "write a good letter", "keep a tidy desk", "make new friends",
    "plan a trip", "eat healthier", "study for an exam", "speak in public", "train a puppy",
    "use less water at home", "manage time", "stay calm under pressure", "choose a laptop",
    "start a blog", "read more", "cook on a small budget", "paint a room", "ride a horse",
)  # fmt: skip
PROSE = (
    "Explain {s} to a child.", "Write a short paragraph about {s}.", "What is special about {s}?",
    "Why are {s} important? Answer in a few sentences.", "Tell me a short story: {p} {e}.",
    "Write a few sentences about {p} who {e}.", "Give {n} tips to {a}.", "How can I {a}?",
    "Describe the history of {s} briefly.", "Summarise what people should know about {s}.",
    "Write a short email to a friend about {s}.", "What are the advantages of {s}?",
    "Compare {s} and {t} in one paragraph.", "Give {n} facts about {s}.",
    "Write a poem of four lines about {s}.", "Write a friendly message from {p} who {e}.",
    "What would happen without {s}?", "List {n} questions about {s} and answer them.",
)  # fmt: skip
JOBS = (
    "checks whether a number is prime", "reverses a string", "finds the largest item of a list",
    "converts Celsius to Fahrenheit", "removes duplicates from a list", "computes a factorial",
    "sorts a list of tuples by the second entry", "checks whether a word is a palindrome",
    "merges two sorted lists", "flattens a nested list", "computes the mean of a list",
    "finds the greatest common divisor of two numbers", "counts the vowels in a string",
    "reads a CSV file and returns its rows", "computes the area of a circle",
    "does a binary search in a sorted list", "transposes a matrix", "validates an email address",
    "generates a random password", "splits a list into chunks", "returns the even numbers",
    "multiplies two matrices", "sums the digits of a number", "finds the longest line of a file",
    "converts a number to binary", "rotates a list by k places", "checks balanced brackets",
    "computes compound interest", "capitalises each sentence", "finds common items of two lists",
    "prints a multiplication table", "inverts a dictionary", "counts lines in a file",
    "computes the distance between two points", "implements bubble sort", "implements quick sort",
    "measures how long a call takes", "retries a call three times", "parses a date string",
    "writes a list to a text file", "finds anagrams in a list", "draws a triangle of stars",
)  # fmt: skip
CLASSES = (
    "a queue with add and remove", "a bank account with deposit and withdraw", "a linked list",
    "a rectangle with area and perimeter", "a timer with start and stop", "a shopping cart",
    "a counter", "a binary tree with insert", "a temperature sensor", "a deck of cards",
    "a cache with a size limit", "a complex number", "a student with grades", "a music collection",
    "a simple logger", "a car with speed", "a point in the plane", "a priority queue",
)  # fmt: skip
CODE = (
    "Write a Python function that {j}.", "Write Python code that {j}, with comments.",
    "Implement {c} as a Python class.", "Write a class in Python for {c}.",
    "Write a function in JavaScript that {j}.", "Show a Python function that {j} and an example.",
    "How do I write a Python function that {j}?", "Write a unit test for a function that {j}.",
    "Write a small Python script that {j} and prints the result.",
)  # fmt: skip
THINGS = (
    "cities", "films", "recipes", "songs", "employees", "animals", "countries", "courses", "cars",
    "sensors", "invoices", "hotels", "planets", "teams", "plants", "flights", "tasks", "museums",
    "phones", "languages", "games", "orders", "students", "events", "sports", "rivers", "computers",
)  # fmt: skip
KEYS = (
    "id", "name", "country", "length", "population", "genre", "rating", "date", "status", "owner",
    "color", "weight", "email", "phone", "duration", "capacity", "score", "category", "language",
    "description", "address", "size", "tags", "start", "end", "level", "speed", "material",
)  # fmt: skip
JSON = (
    "Return a JSON array of {n} {x} with the keys {k}.", "Write {n} {x} as JSON with {k}.",
    "Write a JSON object for one of these {x}, with {k}.", "Show an example JSON file of {n} {x}.",
    "Describe {n} {x} in JSON format. Use the keys {k}.", "Create JSON data of {x}: {k}.",
    "Produce a JSON configuration with the keys {k}.", "Convert to JSON: {k} of {n} {x}.",
)  # fmt: skip
WHO = (
    "The captain", "Our neighbour", "The school", "A small company", "The museum", "The mayor",
    "My aunt", "The engineer", "The hospital", "A group of students", "The farmer", "The editor",
    "The team", "The factory", "A visitor", "The driver", "The bank", "The orchestra", "The cook",
)  # fmt: skip
DID = (
    "bought a new machine", "opened the gate", "sent a long report", "painted the old fence",
    "counted the boxes", "changed the plan", "called the office", "closed early", "found a map",
    "lost the key", "moved the tables", "planted forty trees", "sold the blue boat",
    "wrote three letters", "measured the room", "cleaned the windows", "raised the prices",
    "invited the whole street", "cancelled the concert", "repaired the bridge", "baked two cakes",
)  # fmt: skip
THEN = (
    "before the rain began", "on Friday morning", "without any help", "in less than an hour",
    "because the old one was broken", "after a long talk", "for the first time this year",
    "although it was cold", "and nobody noticed", "with the help of a friend", "near the station",
    "at the end of May", "as the law requires", "so that work could go on", "for twelve euros",
)  # fmt: skip
NAMES = (
    "compute", "items", "value", "data", "rows", "price", "scale", "limit", "words", "size", "left",
    "parse", "update", "length", "offset", "index", "average", "merge", "record", "weight",
)  # fmt: skip
BODIES = (
    "def {f}({a}, {b}):\n    if {a} > {b}:\n        return {a}\n    return {b}",
    "def {f}({a}):\n    found = []\n    for {b} in {a}:\n        if {b}:\n            "
    "found.append({b})\n    return found",
    "def {f}({a}, {b}=1):\n    return {a} * {b} + {n}",
    "def {f}({a}):\n    {b} = {{}}\n    for key, one in {a}.items():\n        {b}[one] = key\n"
    "    return {b}",
    "class {F}:\n    def __init__(self, {a}):\n        self.{a} = {a}\n\n    def {b}(self):\n"
    "        return self.{a} + {n}",
    "for {a} in range({n}):\n    {b} = {f}({a})\n    print({a}, {b})",
)
COPY = (
    "Copy this text word for word: {x}", "Repeat this without any change: {x}",
    "Say exactly this: {x}", "Write out the following text again, unchanged:\n\n{x}",
    "Print the text below exactly as it is.\n{x}", "Correct the spelling of this text: {x}",
    "Put this text in quotation marks: {x}", "Summarise this in one sentence: {x}",
    "Rewrite this text in a polite tone: {x}", "Write this again in the present tense: {x}",
)  # fmt: skip
EDIT = (
    "Add a docstring to this code:\n{x}", "Repeat this code without any change:\n{x}",
    "Rename {a} to {m} in this code:\n{x}", "Add type hints to this code:\n{x}",
    "Write this code again with comments:\n{x}", "Explain this code and show it again:\n{x}",
)  # fmt: skip
KINDS = ("prose", "code", "json", "grounded")
NUMBERS = ("two", "three", "four", "five")


def prompts(count: int, seed: int, written: Sequence[str] = ()) -> list[tuple[str, str]]:
    """(kind, prompt), the kinds in turn. `written`: earlier texts of the target, to be repeated."""
    rng = random.Random(seed)
    makers = (_prose, _code, _json, lambda own: _grounded(own, written))
    return [(KINDS[n % 4], makers[n % 4](rng)) for n in range(count)]


def _prose(rng: random.Random) -> str:
    subject, other = rng.sample(SUBJECTS, 2)
    return rng.choice(PROSE).format(
        s=subject, t=other, p=rng.choice(PEOPLE), e=rng.choice(EVENTS), a=rng.choice(AIMS),
        n=rng.choice(NUMBERS),
    )  # fmt: skip


def _code(rng: random.Random) -> str:
    return rng.choice(CODE).format(j=rng.choice(JOBS), c=rng.choice(CLASSES))


def _json(rng: random.Random) -> str:
    keys = rng.sample(KEYS, rng.randint(2, 5))
    listed = f"{', '.join(keys[:-1])} and {keys[-1]}"
    return rng.choice(JSON).format(n=rng.choice(NUMBERS), x=rng.choice(THINGS), k=listed)


def _grounded(rng: random.Random, written: Sequence[str]) -> str:
    if rng.random() < 0.3:
        first, second, name, other = rng.sample(NAMES, 4)
        code = rng.choice(BODIES).format(
            a=first, b=second, f=name, F=name.title(), n=rng.randint(2, 99)
        )
        return rng.choice(EDIT).format(x=code, a=first, m=other)
    if written and rng.random() < 0.5:
        words = rng.choice(written).split()
        start = rng.randrange(max(1, len(words) - 40))
        return rng.choice(COPY).format(x=" ".join(words[start : start + rng.randint(15, 50)]))
    sentences = [
        f"{rng.choice(WHO)} {rng.choice(DID)} {rng.choice(THEN)}." for _ in range(rng.randint(2, 4))
    ]
    return rng.choice(COPY).format(x=" ".join(sentences))
