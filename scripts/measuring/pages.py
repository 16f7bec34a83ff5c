"""Figures in Markdown and in the pages of this repository, and what their charts look like."""
import re

from measuring import Failure

# The colours follow the reader's choice of light or dark.
STYLE = """
  .paper { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
  .quiet { fill: #59636e } .title { font-weight: 600; font-size: 15px } .strong { font-weight: 600 }
  .axon { fill: #b7410e } .peer { fill: #8c959f } .axis { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #f0f6fc } .quiet { fill: #9198a1 }
    .axon { fill: #f0883e } .peer { fill: #656c76 } .axis { stroke: #3d444d }
  }
"""


def table(head, rows):
    """Text to the left, numbers to the right."""
    lines = ["| " + " | ".join(head) + " |", "| --- | --- |" + " ---: |" * (len(head) - 2)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def replace(name, blocks):
    """Puts each page's block between its marks, `<!-- NAME:begin -->` and `<!-- NAME:end -->`; all pages or none."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    texts = {}
    for page, block in blocks.items():
        old = page.read_text() if page.exists() else ""
        new, count = re.subn(f"{begin}\n.*?{end}", lambda _, block=block: f"{begin}\n{block}{end}", old, flags=re.S)
        if count != 1:
            raise Failure(f"{page} needs one '{begin}' and one '{end}', each on a line of its own.")
        texts[page] = new
    for page, text in texts.items():
        page.write_text(text)
