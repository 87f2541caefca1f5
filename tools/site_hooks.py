"""Hooks of mkdocs for the documentation site.

Pages link to files of the source tree, which the site does not contain: such a link
becomes the path of the file. After the build, every link to a heading is checked;
mkdocs itself checks links to pages.
"""

import logging
import os
import re

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
HREF = re.compile(r'<a [^>]*href="([^"]+)"')
ID = re.compile(r'\bid="([^"]+)"')
log = logging.getLogger("mkdocs.hooks")  # a warning fails a strict build


def on_page_markdown(markdown, page, config, files):
    here = os.path.dirname(page.file.src_path)

    def inside(match):
        text, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group()
        path = os.path.normpath(os.path.join("docs", here, target.partition("#")[0]))
        if path.startswith("docs" + os.sep):
            return match.group()
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return LINK.sub(inside, markdown)


def on_post_build(config):
    pages = {}
    for where, _, names in os.walk(config["site_dir"]):
        for name in names:
            if name.endswith(".html") and name != "404.html":
                path = os.path.join(where, name)
                with open(path, encoding="utf-8") as file:
                    pages[path] = file.read()
    ids = {path: set(ID.findall(text)) for path, text in pages.items()}
    for path, text in pages.items():
        for href in HREF.findall(text):
            target, _, fragment = href.partition("#")
            if not fragment or ":" in target:
                continue
            full = os.path.normpath(os.path.join(os.path.dirname(path), target)) \
                if target else path
            if full in ids and fragment not in ids[full]:
                log.warning("%s links to %s: no such heading",
                            os.path.relpath(path, config["site_dir"]), href)
