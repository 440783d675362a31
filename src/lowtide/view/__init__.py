"""Results shown to people: in the terminal, as SVG pictures, and in the browser.

`reports` hold a result and the texts about it, `page_data` turns them into JSON for the page in `web/`, `terminal` and
`pictures` draw them, `html_page` writes the page with its data into one file, and `server` serves it. The room may
import every other room but `cli`, and never TensorFlow.
"""
