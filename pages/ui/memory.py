"""What is too long for an address: texts in this server's memory, each under a short key.

Bounded in size and number. What was not asked for longest goes first, and all of it when the server
stops: `kept` then says None, and the page that it is gone.
"""

import base64
import hashlib
import secrets
import threading
from collections import OrderedDict

MOST_TEXTS = 500
LONGEST = 300_000
"""Characters of a text; of all together a hundred times as many."""
MOST_CHARACTERS = 100 * LONGEST

_SECRET = secrets.token_bytes(16)
"""Of this process: without it nobody finds the key of a text that is not their own."""
_LOCK = threading.Lock()
_TEXTS: OrderedDict[str, str] = OrderedDict()


def keep(text: str) -> str | None:
    """The key under which a text is kept, the same for the same text; None where it is too long."""
    if len(text) > LONGEST:
        return None
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), key=_SECRET, digest_size=9).digest()
    key = base64.urlsafe_b64encode(digest).decode("ascii")
    with _LOCK:
        _TEXTS[key] = text
        _TEXTS.move_to_end(key)
        while len(_TEXTS) > MOST_TEXTS or sum(map(len, _TEXTS.values())) > MOST_CHARACTERS:
            _TEXTS.popitem(last=False)
    return key


def kept(key: str) -> str | None:
    """The text of a key; None where this server does not know it, or no longer."""
    with _LOCK:
        if key in _TEXTS:
            _TEXTS.move_to_end(key)
        return _TEXTS.get(key)
