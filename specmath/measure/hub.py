# mypy: disable-error-code="import-not-found"
"""A folder for what a user names: one of this machine, or a model of the hub, from its cache."""

from __future__ import annotations

from pathlib import Path

from specmath.checks import InputError

__all__ = ["local_folder"]

WANTED = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]
LEFT = ["*/*", "consolidated*"]
"""Subfolders hold other formats, `consolidated` files the same weights once more."""


def local_folder(source: str) -> Path:
    """The folder named, or that of a hub name's snapshot, fetched where the cache has none.

    One question to the hub, and none with HF_HUB_OFFLINE=1: without a network the cached snapshot
    is taken at once. transformers itself would ask for each file and try five times: minutes.
    InputError where there is neither a folder nor a model of that name.
    """
    folder = Path(source).expanduser()
    if folder.exists():
        return folder
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or "\\" in source:
        raise InputError(f"no folder {source}; give a folder with config.json or a hub name")
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(source, allow_patterns=WANTED, ignore_patterns=LEFT))
    except HFValidationError as error:
        raise InputError(f"no folder {source}, and that cannot be a hub name") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "no status")
        raise InputError(
            f"no folder {source}, and the hub does not give out a model of that name (HTTP "
            f"{status}): a wrong name, or one that needs a login or consent"
        ) from error
    except OSError as error:
        why = "there may be no network"
        if constants.HF_HUB_OFFLINE:
            why = "HF_HUB_OFFLINE is set, so the hub was not asked"
        raise InputError(
            f"no folder {source}, and no model of that name in the cache of the hub; {why}"
        ) from error
