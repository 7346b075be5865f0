"""Load an encoding without surprises: offline where possible, quickly in any case."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from history_curator.tokens._bundled import Encode, load_bundled

ALLOW_DOWNLOAD = "HISTORY_CURATOR_ALLOW_DOWNLOAD"
"""Environment variable; ``0`` forbids fetching a tokenizer from the network."""

_DOWNLOAD_SECONDS = 10.0
_HOST = "https://openaipublic.blob.core.windows.net/encodings"
_R50K = ("r50k_base", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930")
_P50K = ("p50k_base", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069")
_CL100K = ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7")
_O200K = ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d")

ENCODINGS = {
    "r50k_base": _R50K,
    "p50k_base": _P50K,
    "p50k_edit": _P50K,
    "cl100k_base": _CL100K,
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,
}
"""Encoding name to the file it is built from and that file's SHA-256."""

_lock = threading.Lock()
_loaded: dict[str, Encode | None] = {}


def load_encoding(name: str) -> Encode | None:
    """Return a function from text to tokens, or None (and warn, once) when it cannot be had.

    Looks in tiktoken's own cache (``TIKTOKEN_CACHE_DIR``, ``DATA_GYM_CACHE_DIR`` or its default),
    then in the copy llama-index-core ships, then for the package splintr, which brings its own.
    Only if none has it, and the environment does not forbid it, is it downloaded, within ten
    seconds.
    """
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def _load(name: str) -> Encode | None:
    file, digest = ENCODINGS[name]
    url = f"{_HOST}/{file}.tiktoken"
    folder = _find_cached(url, digest)
    if folder is None:
        bundled = load_bundled(name)
        if bundled is not None:
            return bundled
        if os.environ.get(ALLOW_DOWNLOAD) == "0":
            _warn(name, f"no cached copy was found and {ALLOW_DOWNLOAD}=0")
            return None
        problem = _download(url, digest)
        if problem is not None:
            _warn(name, f"no cached copy was found and the download failed ({problem})")
            return None
    try:
        import tiktoken

        with _cache_dir(folder):
            return tiktoken.get_encoding(name).encode_ordinary
    except Exception as error:  # noqa: BLE001 - any failure ends in the same fallback
        _warn(name, f"loading it failed ({type(error).__name__}: {error})")
        return None


def _find_cached(url: str, digest: str) -> str | None:
    key = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    for folder in _cache_folders():
        try:
            data = (folder / key).read_bytes()
        except OSError:
            continue
        # tiktoken deletes and downloads again what does not match, so check before it does.
        if hashlib.sha256(data).hexdigest() == digest:
            return str(folder)
    return None


def _cache_folders() -> Iterator[Path]:
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path(tempfile.gettempdir()) / "data-gym-cache"
    try:
        spec = importlib.util.find_spec("llama_index")
    except (ImportError, ValueError):
        spec = None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(root) / "core" / "_static" / "tiktoken_cache"


@contextmanager
def _cache_dir(folder: str | None) -> Iterator[None]:
    """Point tiktoken at a folder for the duration of one load."""
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    if folder is not None:
        os.environ["TIKTOKEN_CACHE_DIR"] = folder
    try:
        yield
    finally:
        if folder is not None:
            if before is None:
                del os.environ["TIKTOKEN_CACHE_DIR"]
            else:
                os.environ["TIKTOKEN_CACHE_DIR"] = before


def _download(url: str, digest: str) -> str | None:
    """Fetch a file into tiktoken's cache; return what went wrong, if anything.

    In a thread of its own, because tiktoken sets no timeout and holds a lock while it loads.
    """
    problem = [f"no answer within {_DOWNLOAD_SECONDS:.0f} s"]

    def fetch() -> None:
        try:
            from tiktoken.load import read_file_cached

            read_file_cached(url, digest)
        except Exception as error:  # noqa: BLE001 - reported to the caller, whatever it is
            problem[0] = f"{type(error).__name__}: {error}"
        else:
            problem.clear()

    worker = threading.Thread(target=fetch, daemon=True, name="history-curator-encoding")
    worker.start()
    worker.join(_DOWNLOAD_SECONDS)
    return problem[0].splitlines()[0][:200] if problem else None


def _warn(name: str, why: str) -> None:
    warnings.warn(
        f"The tokenizer {name!r} is not available: {why}. Token counts are conservative "
        "estimates instead of exact, and the counter's name says so. Fix: set TIKTOKEN_CACHE_DIR "
        'to a folder that has it, pip install "history-curator[offline]" (which brings a copy), '
        "or allow the download once.",
        RuntimeWarning,
        stacklevel=2,
    )
