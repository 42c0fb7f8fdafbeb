"""A window along one dimension of an image, in extents that a launch plan evaluates for any workload."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

from cutegen_core.propose.playbook.values import ONE, Extent, at_least_one, combined, computed, extent


def total(*terms: tuple[int, Extent]) -> Extent:
    """Return a sum of sizes, each with its sign; numbers are added up."""
    constant = sum(sign * term.size for sign, term in terms if term.text.isdigit())
    named = [(sign, term.text) for sign, term in terms if not term.text.isdigit()]
    if not named:
        return Extent(str(constant), constant)
    named.sort(key=lambda one: -one[0])
    texts = [*(("+" if sign > 0 else "-", text) for sign, text in named)]
    texts += [("+" if constant > 0 else "-", str(abs(constant)))] if constant else []
    text = " ".join(word for pair in texts for word in pair).removeprefix("+ ")
    text = text if len(texts) == 1 and named[0][0] > 0 else f"({text})"
    signs = [sign for sign, _ in terms]
    return combined(text, lambda *sizes: sum(map(operator.mul, signs, sizes)), *(term for _, term in terms))


def over(a: Extent, b: Extent) -> Extent:
    """Return the quotient, rounded down; where the divisor may be nothing, that of one."""
    b = at_least_one(b)
    if b.text == "1":
        return a
    return computed(f"({{}} // {_factor(b)})", operator.floordiv, a, b)


def _factor(size: Extent) -> str:
    return f"({size.text})" if " " in size.text and not size.text.startswith("(") else size.text


@dataclass(frozen=True)
class Window:
    """The window along one dimension.

    Tap t of place o sees element `o * stride - padding + t * dilation` of the image; of a transposed convolution it
    sees element e where `o = e * stride - padding + t * dilation`.

    Attributes:
        image, places: extents of the image and of the result.
        taps: size of the window.
    """

    image: Extent
    places: Extent
    taps: Extent
    stride: Extent
    padding: Extent
    dilation: Extent
    transposed: bool = False

    @property
    def numbers(self) -> tuple[Extent, ...]:
        """Return what it is besides its extents."""
        return self.taps, self.stride, self.padding, self.dilation

    @property
    def is_plain(self) -> bool:
        """Return whether it sees each place of the image as it is: one tap, no stride, no padding."""
        return (self.taps.text, self.stride.text, self.padding.text) == ("1", "1", "0") and self.image == self.places


def pinned(window: Window) -> Window:
    """Return the window with the numbers it has in the traced workload."""
    taps, stride, padding, dilation = (one.traced for one in window.numbers)
    return replace(window, taps=taps, stride=stride, padding=padding, dilation=dilation)


def slide(
    image: Extent, taps: Extent, stride: Extent, padding: Extent, dilation: Extent, ceil: bool = False
) -> Window:  # fmt: skip
    """Return the window of a convolution or pooling; `ceil`: the last one may hang over, but starts inside."""
    reach = ((1, image), (1, extent(2).times(padding)), (-1, dilation.times(taps)), (1, dilation))
    if stride.text == "1":
        return Window(image, total(*reach), taps, stride, padding, dilation)
    room = total(*reach, (-1, ONE))
    places = total((1, over(room, stride)), (1, ONE))
    if ceil:
        starts = total((1, image), (1, padding))
        text = f"min(ceil_div({room.text}, {stride.text}) + 1, ceil_div({starts.text}, {stride.text}))"
        places = combined(text, lambda n, m, step: min(-(-n // step) + 1, -(-m // step)), room, starts, stride)
    return Window(image, places, taps, stride, padding, dilation)


def slide_same(image: Extent, taps: Extent, dilation: Extent) -> Window:
    """Return the window of `padding="same"`, which has as many places as the image: the odd one is padded behind."""
    padding = over(total((1, dilation.times(taps)), (-1, dilation)), extent(2))
    return Window(image, image, taps, ONE, padding, dilation)


def slide_transposed(
    image: Extent, taps: Extent, stride: Extent, padding: Extent, dilation: Extent, more: Extent
) -> Window:  # fmt: skip
    """Return the window of a transposed convolution; `more` is its output padding."""
    reached = ((1, image.times(stride)), (1, dilation.times(taps)), (1, more), (1, ONE))
    places = total(*reached, (-1, stride), (-1, dilation), (-1, extent(2).times(padding)))
    return Window(image, places, taps, stride, padding, dilation, transposed=True)
