"""x"""
from tests.adversarial.case import Case

TRICKY: tuple[Case, ...] = ()
