"""Charts of insights as pictures, SVG and PNG, drawn without a browser."""
