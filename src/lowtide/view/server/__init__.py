"""The server behind `lowtide view` and the Lowtide tab of TensorBoard.

A `Library` lists the files below the given paths, a worker process reads them and builds indexes, `Api` answers
requests as JSON data, and `App` serves that with the built page. The folder may import every room that `view` may, but
never TensorFlow.
"""
