"""Evaluations over time: what passed as a plot, cost and duration beside it as diagnostics."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult, RenderResult
from textual.containers import Vertical

# Whoever loads this module is about to draw: the library is not for the start.
from textual_plotext import PlotextPlot

from tui.view.cases import Point, diagnostics, ticks
from tui.widgets.content import Lines


class PassRate(PlotextPlot, can_focus=True):
    """The share that passed in each evaluation of a series, oldest on the left; the one under the cursor is ringed."""

    def __init__(self) -> None:
        super().__init__()
        self.theme = "clear"  # signs only: the colours are the style sheet's
        self.series: Sequence[Point] = ()

    def render(self) -> RenderResult:
        """The figure in the size it has now."""
        plot, heights = self.plt, [point.passed for point in self.series]
        plot.clear_figure()
        plot.xaxes(True, False)
        plot.yaxes(True, False)
        if heights:
            places = list(range(1, len(heights) + 1))
            plot.plot(places, heights, marker="·", color="default")
            plot.scatter(places, heights, marker="●", color="default")
            for place, point in enumerate(self.series, 1):
                if point.here:
                    plot.scatter([place], [point.passed], marker="◉", color="default")
            shown, labels = ticks(self.series, self.size.width - 8)
            plot.xticks(shown, labels)  # type: ignore[arg-type]
            plot.yticks([0, 25, 50, 75, 100] if self.size.height > 12 else [0, 50, 100])
            plot.xlim(0.5, len(heights) + 0.5)
            plot.ylim(0, 100)
        return super().render()


class Plots(Vertical):
    """The plot above the diagnostics."""

    def compose(self) -> ComposeResult:
        """Both."""
        yield PassRate()
        yield Lines((), classes="diagnostics")

    def show(self, series: Sequence[Point]) -> None:
        """Draw a series, of one evaluation at least."""
        plot = self.query_one(PassRate)
        if series != plot.series:
            plot.series = series
            plot.refresh()
            self.query_one(Lines).show([(one, 9) for one in diagnostics(series)])
