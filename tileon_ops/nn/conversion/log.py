"""What a conversion tells the logger "tileon_ops": a line for each step, and a warning where little was converted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tileon_ops.nn.conversion.contents import Layer
from tileon_ops.nn.conversion.plan import Step
from tileon_ops.nn.conversion.report import Conversion, ConversionReport, places

_log = logging.getLogger("tileon_ops")
_MOST_REASONS = 3  # in a warning: those that leave the most bytes


def log_step(step: Step, done: Conversion) -> None:
    if done.became is not None:
        _log.info("convert: %s is %s: %d -> %d bytes", places(done), done.became, done.bytes_before, done.bytes_after)
    elif isinstance(step.item, Layer):
        _log.info("convert: %s stays %s: %s", places(done), type(step.item.module).__name__, done.reason)
    else:
        _log.info("convert: %s stays: %s, %d bytes", places(done), done.reason, done.bytes_before)


def log_report(report: ConversionReport, layers: int, warning: str) -> None:
    """The last line of a conversion: its totals, and the warning where there is one."""
    converted = [done for done in report if done.became is not None]
    before, after = sum(done.bytes_before for done in converted), sum(done.bytes_after for done in converted)
    text = "convert: %d of %d linear layers: %d -> %d bytes; the whole model: %d -> %d bytes"
    _log.info(text, len(converted), layers, before, after, report.bytes_before, report.bytes_after)
    if warning:
        _log.warning("convert: %s", warning)


def warning_of(steps: Sequence[Step]) -> str:
    """What to say where nothing, or less than half of the bytes of linear weights, becomes what was asked for."""
    weights = [step for step in steps if step.is_linear_weight()]
    left = [step for step in weights if step.reason and not step.is_done]
    of_all, of_left = _bytes(weights), _bytes(left)
    if not weights:
        return "nothing was converted: the model has no linear layers"
    if len(left) == len(weights):
        text = "nothing was converted"
    elif 2 * of_left > of_all:
        text = f"{of_all - of_left} of {of_all} bytes of linear weights were converted"
    else:
        return ""
    return f"{text}. Left: {_by_reason(left)}. tileon_ops.conversion_report(model) lists everything"


def _by_reason(left: Sequence[Step]) -> str:
    groups: dict[str, list[Step]] = {}
    for step in left:
        groups.setdefault(step.reason, []).append(step)
    largest = sorted(groups.items(), key=lambda item: -_bytes(item[1]))
    texts = []
    for reason, steps in largest[:_MOST_REASONS]:
        first, more = steps[0].item.names[0] or "the model itself", len(steps) - 1
        names = f"{first} and {more} more" if more else first
        texts.append(f"{names}, {_bytes(steps)} bytes ({reason})")
    if len(largest) > _MOST_REASONS:
        texts.append(f"layers with {len(largest) - _MOST_REASONS} other reasons")
    return "; ".join(texts)


def _bytes(steps: Sequence[Step]) -> int:
    return sum(step.item.nbytes for step in steps)
