"""Reports as pictures: SVG and PNG."""
