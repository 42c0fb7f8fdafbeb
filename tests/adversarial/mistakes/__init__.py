"""Mistakes that a model or a tired engineer makes: each is one edit of a right kernel."""

from __future__ import annotations

from tests.adversarial.mistakes.edit import Mistake
from tests.adversarial.mistakes.elementwise import ELEMENTWISE
from tests.adversarial.mistakes.movements import MOVEMENTS
from tests.adversarial.mistakes.normalisations import NORMALISATIONS
from tests.adversarial.mistakes.products import PRODUCTS
from tests.adversarial.mistakes.reductions import REDUCTIONS

MISTAKES: tuple[Mistake, ...] = (*ELEMENTWISE, *NORMALISATIONS, *REDUCTIONS, *MOVEMENTS, *PRODUCTS)
