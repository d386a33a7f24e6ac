"""Charts as SVG: sparklines and bars. Pure; the numbers are computed here, the colours are classes of the style sheet.

The result is markup without text of users, so that it can be inserted without escaping.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_PAD = 1.5


def sparkline(values: Sequence[float], width: int = 120, height: int = 28, label: str = "") -> Markup:
    """A line with a filled area below it, from zero to the largest value; the newest value is on the right."""
    points = _points(values, width, height)
    if len(points) < 2:
        points = [(0.0, height - _PAD), (float(width), height - _PAD)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{height} {line} {points[-1][0]:.1f},{height}"
    body = Markup(
        '<polygon class="spark-area" points="{}"/><polyline class="spark-line" points="{}"/>'
    ).format(area, line)
    return _svg(body, width, height, "spark", label)


def bars(
    values: Sequence[float], width: int = 960, height: int = 64, label: str = "", titles: Sequence[str] = ()
) -> Markup:
    """One bar for each value, with a tooltip each."""
    if not values:
        return Markup("")
    top, step = max(*values, 1e-9), width / len(values)
    gap = min(1.0, step / 4)
    parts = []
    for index, value in enumerate(values):
        tall = 0.0 if value <= 0 else max(1.5, value / top * (height - 2))
        title = Markup("<title>{}</title>").format(titles[index]) if titles else Markup("")
        parts.append(
            Markup('<rect class="bar" x="{}" y="{}" width="{}" height="{}" data-bar="{}">{}</rect>').format(
                f"{index * step:.2f}",
                f"{height - tall:.2f}",
                f"{max(0.5, step - gap):.2f}",
                f"{tall:.2f}",
                index,
                title,
            )
        )
    return _svg(Markup("").join(parts), width, height, "bars", label)


def _points(values: Sequence[float], width: int, height: int) -> list[tuple[float, float]]:
    if len(values) < 2:
        return []
    top = max(*values, 1e-9)
    step = width / (len(values) - 1)
    usable = height - 2 * _PAD
    return [(index * step, height - _PAD - value / top * usable) for index, value in enumerate(values)]


def _svg(body: Markup, width: int, height: int, name: str, label: str) -> Markup:
    accessible = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    return Markup('<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" {}>{}</svg>').format(
        name, width, height, accessible, body
    )
