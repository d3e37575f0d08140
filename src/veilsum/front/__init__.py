"""What people meet: every verb makes one sheet of answers, and all text, pages and tables come from it.

sheet     `Answers`: numbers with their intervals and promises, best first
screen    the sheet in a terminal of any width; no cell is ever cut
page      the sheet, or a text to sign, as one HTML file without script
table     the sheet as one long table, in which every number carries its verdict
plot      pictures from the long table
words     promises in plain words
odds      epsilon in words: how much more likely, how sure
of_*      a sheet from what a verb computed
"""

from veilsum.front.sheet import Answer, Answers

__all__ = ["Answer", "Answers"]
