"""The masked sum between agents, without input and output.

`masks` has the pairwise masks that cancel in the sum over a roster, `records` what agents sign and
flood, `flooding` the set of records that only grows, and `session` one agent's behaviour for one query.
`agent` runs one query after the other: `queries` says whose turn it is, `observer` follows one without
taking part, and `links` brings the records of neighbours together.
Privacy rests on the rules R1 to R6; `rules.RULES` says where each is enforced.
"""
