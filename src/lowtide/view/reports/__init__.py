"""What is shown of a tide, a plan, a difference, a shortage, a forecast or a training run, before it is drawn.

A report holds a result and the questions that were asked about it, and writes the lines of text that the terminal, the
pictures and the page share. It knows no medium; `page_data`, `pictures` and `terminal` import it.
"""
