"""The Tide: the memory of one step over time, predicted or recorded.

`columns` has the data and `owner` the record that says whose bytes some memory is. `explain`, `address_space` and
`growth` answer questions about them, `storage` reads and writes `.tide` files, `tide` puts these together, and `diff`
compares two tides. Imports `errors`, `units`, `program` and `simulator`.
"""
