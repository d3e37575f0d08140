"""Attacks tried so far, by kind: each is one adversary and one pair of worlds against a claim."""

from collections import Counter

TRIED: Counter[str] = Counter()
