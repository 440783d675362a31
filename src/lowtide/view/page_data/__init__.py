"""What the browser page draws of each report, as plain data that goes to it as JSON.

The server sends it to the page, and `--html` inlines it into a file. The types in `web/src` (`tide/data.ts`,
`plan/data.ts`, `reports/data.ts`) describe the same fields.
"""
