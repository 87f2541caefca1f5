"""The project check fails on copied addresses and on lists that are not complete."""

import subprocess
import unittest

from gate import GateTest

HOST = "tool." + "example"  # in two parts, as the check reads this file, too


class Project(GateTest):
    gate = "check_project.py"

    def setUp(self):
        super().setUp()
        subprocess.run(["git", "init", "-q", self.folder.name], check=True)
        self.write("project.txt", f"# two\ncontact us@{HOST}\nurl https://{HOST}\n")
        self.write("README.md", "# Tool\n\nWrite to the contact of project.txt.\n")
        self.write("CMakeLists.txt", "project(lockstep VERSION 1.2.3 LANGUAGES C)\n")
        self.write("include/lockstep/version.h",
                   '#define LS_VERSION_STRING "1.2.3"\n')
        self.write("CITATION.cff", "cff-version: 1.2.0\nversion: 1.2.3\n")
        self.write("CHANGELOG.md", "# Changes\n\n## 1.2.3, unreleased\n\n## 1.2.2\n")

    def test_good_tree(self):
        self.assertIn("0 errors", self.passes())

    def test_missing_address(self):
        self.write("project.txt", f"contact us@{HOST}\n")
        self.fails("project.txt: one line 'url VALUE' is needed, but 0 were found")
        self.write("project.txt", f"contact us@{HOST}\nurl \n")
        self.fails("'url VALUE'")

    def test_copied_address(self):
        self.write("debian/control", f"Maintainer: Us <us@{HOST}>\n")
        self.fails(f"debian/control: 'us@{HOST}' is the contact")

    def test_copied_placeholder(self):
        self.write("README.md", f"git clone https://{HOST}/tool\n")
        self.fails(f"README.md: '{HOST}' is a placeholder")

    def test_readme_may_have_the_real_url(self):
        self.write("project.txt", "contact us@tool.org\nurl https://tool.org/tool\n")
        self.write("README.md", "git clone https://tool.org/tool\n")
        self.passes()
        self.write("docs/a.md", "git clone https://tool.org/tool\n")
        self.fails("docs/a.md: 'https://tool.org/tool' is the url")

    def test_versions(self):
        self.write("CITATION.cff", "cff-version: 1.2.0\nversion: 1.2.2\n")
        self.write("CHANGELOG.md", "# Changes\n\n## [1.3.0] - 2026-01-02\n")
        self.fails("CITATION.cff: its version is 1.2.2, but the version in CMakeLists.txt is",
                   "CHANGELOG.md: its version is 1.3.0", "project: 2 errors")
        self.write("CMakeLists.txt", "project(lockstep)\n")
        self.fails("CMakeLists.txt: its version is none")

    def test_changelog(self):
        line = "- a change\n"
        self.write("CHANGELOG.md", "# Changes\n\n## 1.2.3\n\n### Added\n\n" +
                   56 * line + "\n## 1.2.2\n\n### Fixed\n\n#### Tools\n")
        self.passes()
        self.write("CHANGELOG.md", "## 1.2.3\n\n### New\n\n" + 57 * line)
        self.fails("CHANGELOG.md: the section 1.2.3 has 61 lines", "has the heading 'New'",
                   "project: 2 errors")

    def test_fuzz_targets(self):
        self.write("tests/fuzz/fuzz.c", "")
        self.write("tests/fuzz/fuzz_json.c", "")
        self.write("SECURITY.md", "| `input` | fuzz targets |\n|---|---|\n"
                   "| texts | `json`, `xml` |\n\nand `others`\n")
        self.fails("SECURITY.md: its table names 'xml'", "project: 1 errors")
        self.write("SECURITY.md", "# Security\n")
        self.fails("SECURITY.md: its table does not list the fuzz target 'json'")

    def test_examples(self):
        self.write("examples/hello.c", "")
        self.write("examples/sum.c", "")
        self.write("examples/README.md", "# Examples\n\n## Building\n\n"
                   "## hello\n\n## gone\n")
        self.fails("sum.c has no section '## sum'", "section 'gone' does not match a program",
                   "project: 2 errors")

    def test_libraries(self):
        self.write("debian/control", "Source: tool\nBuild-Depends: cmake,\n"
                   "               libjson-dev,\n               zlib1g-dev (>= 1),\n"
                   "\nPackage: tool-dev\nSuggests: a-dev,\n          b-dev\n")
        self.write("THIRD-PARTY.md", "| zlib | zlib1g-dev | Zlib |\n")
        self.fails("THIRD-PARTY.md: libjson-dev is missing", "project: 1 errors")


if __name__ == "__main__":
    unittest.main()
