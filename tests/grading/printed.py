"""What did a cell print? Used by several tests."""


def text(outputs: list[dict]) -> str:
    """Streams, and the names of errors."""
    return "".join(o.get("text", "") + o.get("ename", "") for o in outputs)
