"""The masked sum between agents, without input and output.

`masks` has the pairwise masks that cancel in the sum over a roster, `records` what agents sign and
flood, `flooding` the set of records that only grows, and `session` one agent's behaviour for one query.
Privacy rests on the rules R1 to R6, each enforced in one place of `session`.
"""
