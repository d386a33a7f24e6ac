"""Templates: the Jinja environment with its filters, and the rendering of pages and fragments.

All values are escaped by the environment (`autoescape`); no template marks a value as safe. Text of records is passed
through `visible`, which also shows control and bidirectional characters as escapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ottla.console.presentation import charts, formats

_PACKAGE = files("ottla.console")


def make_environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        number=formats.number,
        rate=formats.rate,
        size=formats.size,
        duration=formats.duration,
        clock=formats.clock,
        moment=formats.moment,
        ago=formats.ago,
        visible=formats.visible,
        segment=lambda name: quote(str(name), safe=""),
    )
    environment.globals.update(sparkline=charts.sparkline, plural=formats.plural)
    return environment


def _source(name: str) -> str | None:
    file = _PACKAGE.joinpath("templates", name)
    return file.read_text("utf-8") if file.is_file() else None


def render(environment: Environment, template: str, context: Mapping[str, Any]) -> str:
    return environment.get_template(template).render(context)


def render_fragments(
    environment: Environment, names: tuple[str, ...], context: Mapping[str, Any]
) -> dict[str, str]:
    """The HTML of each fragment; the fragment `x` is the template `fragments/x.html` in the element with the id `x`."""
    return {name: render(environment, f"fragments/{name}.html", context) for name in names}
