/*
 * One case for each command, told apart by the words before the one that is
 * completed; see completion.h.
 */
#include "cli/frame/completion.h"

#include <string.h>

enum { NAME_BYTES = 128 };

typedef void visit_fn(FILE *stream, const lsi_command *command,
                      const char *name);

/* Each command before its children; `name` is its full name, "" the root's. */
static void visit(FILE *stream, const lsi_command *command, const char *name,
                  visit_fn *fn)
{
    fn(stream, command, name);
    for (size_t i = 0; i < command->n_children; i++) {
        char child[NAME_BYTES];
        const int length =
            snprintf(child, sizeof(child), "%s%s%s", name, name[0] ? " " : "",
                     command->children[i]->name);
        if (length < (int)sizeof(child))
            visit(stream, command->children[i], child, fn);
    }
}

/* Before the name of a flag that can only be switched off: "no-". */
static const char *negation(const lsi_option *row)
{
    const bool on = row->type == LSI_OPTION_BOOL &&
                    row->default_value != NULL &&
                    strcmp(row->default_value, "true") == 0;
    return on ? "no-" : "";
}

/* "a|b|c" as "a b c". */
static void print_choices(FILE *stream, const char *choices)
{
    for (; *choices != '\0'; choices++)
        fputc(*choices == '|' ? ' ' : *choices, stream);
}

/*
 * In single quotes; characters of `special` get a backslash, and a quote ends
 * them for a moment.
 */
static void print_quoted(FILE *stream, const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stream);
        else if (strchr(special, *text) != NULL)
            fprintf(stream, "\\%c", *text);
        else
            fputc(*text, stream);
    }
}

/* A line of shell that finds the command among words that have been typed. */
static void print_known_names(FILE *stream, const lsi_command *command,
                              const char *name)
{
    (void)command;
    if (name[0] != '\0')
        fprintf(stream, "            ' %s') command=\"$command $word\" ;;\n",
                name);
}

/* ---- bash ------------------------------------------------------------- */

static void bash_values(FILE *stream, const lsi_command *command,
                        const char *name)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        if (lsi_option_stands_alone(row))
            continue;
        fprintf(stream, "    ' %s --%s'", name, row->name);
        if (row->letter != 0)
            fprintf(stream, "|' %s -%c'", name, row->letter);
        fputs(")", stream);
        if (row->choices != NULL) {
            fputs(" words='", stream);
            print_choices(stream, row->choices);
            fputs("';", stream);
        }
        fputs(" is_value=1 ;;\n", stream);
    }
}

static void bash_words(FILE *stream, const lsi_command *command,
                       const char *name)
{
    fprintf(stream, "    '%s%s') words='", name[0] ? " " : "", name);
    for (size_t i = 0; i < command->n_children; i++)
        fprintf(stream, "%s ", command->children[i]->name);
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        fprintf(stream, "--%s%s ", negation(row), row->name);
        if (row->type == LSI_OPTION_MODE)
            fprintf(stream, "--no-%s ", row->name);
    }
    fputs("--help' ;;\n", stream);
}

void lsi_completion_bash(FILE *stream, const lsi_command *root)
{
    fputs("# Completion of lockstep for bash: source <(lockstep completion "
          "bash)\n"
          "_lockstep()\n{\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} command= words= "
          "is_value= word i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        word=${COMP_WORDS[i]}\n"
          "        [ \"$word\" = -- ] && return\n"
          "        case \"$command $word\" in\n",
          stream);
    visit(stream, root, "", print_known_names);
    fputs("        esac\n    done\n"
          "    case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n",
          stream);
    visit(stream, root, "", bash_values);
    fputs("    esac\n"
          "    [ -n \"$is_value\" ] || case \"$command\" in\n",
          stream);
    visit(stream, root, "", bash_words);
    fputs(
        "    esac\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
        "}\n"
        "complete -o default -F _lockstep lockstep\n",
        stream);
}

/* ---- zsh -------------------------------------------------------------- */

static void zsh_option(FILE *stream, const lsi_option *row)
{
    fprintf(stream, " \\\n            '%s--%s%s%s[",
            row->type == LSI_OPTION_TEXTS ? "*" : "", negation(row), row->name,
            lsi_option_attaches(row) ? "=-" : "");
    print_quoted(stream, row->help, "[]:\\");
    fputs("]", stream);
    if (row->type != LSI_OPTION_BOOL) {
        fputs(lsi_option_attaches(row) ? "::" : ":", stream);
        print_quoted(stream, row->value != NULL ? row->value : "value",
                     "[]:\\");
        fputs(":", stream);
        if (row->choices != NULL) {
            fputs("(", stream);
            print_choices(stream, row->choices);
            fputs(")", stream);
        } else {
            fputs("_files", stream);
        }
    }
    fputs("'", stream);
    if (row->type == LSI_OPTION_MODE)
        fprintf(stream, " \\\n            '--no-%s'", row->name);
}

static void zsh_case(FILE *stream, const lsi_command *command, const char *name)
{
    fprintf(stream, "    '%s%s')\n", name[0] ? " " : "", name);
    if (command->n_children > 0) {
        fputs("        local -a commands=(", stream);
        for (size_t i = 0; i < command->n_children; i++) {
            fprintf(stream, "\n            '%s:", command->children[i]->name);
            print_quoted(stream, command->children[i]->summary, ":\\");
            fputs("'", stream);
        }
        fputs(")\n        _describe command commands ;;\n", stream);
        return;
    }
    fputs("        _arguments '--help[show the help]'", stream);
    for (size_t i = 0; i < command->n_options; i++)
        zsh_option(stream, &command->options[i]);
    fputs(" '*:file:_files' ;;\n", stream);
}

void lsi_completion_zsh(FILE *stream, const lsi_command *root)
{
    fputs(
        "#compdef lockstep\n"
        "# Completion of lockstep for zsh: source <(lockstep completion zsh)\n"
        "_lockstep()\n{\n"
        "    local command= word\n"
        "    for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
        "        case \"$command $word\" in\n",
        stream);
    visit(stream, root, "", print_known_names);
    fputs("        esac\n    done\n    case \"$command\" in\n", stream);
    visit(stream, root, "", zsh_case);
    fputs("    esac\n}\n"
          "if [ \"$funcstack[1]\" = _lockstep ]; then\n"
          "    _lockstep \"$@\"\n"
          "else\n"
          "    compdef _lockstep lockstep\n"
          "fi\n",
          stream);
}

/* ---- fish ------------------------------------------------------------- */

static void fish_lines(FILE *stream, const lsi_command *command,
                       const char *name)
{
    for (size_t i = 0; i < command->n_children; i++) {
        fprintf(stream,
                "complete -c lockstep -n '__lockstep_is \"%s\"' -f -a %s -d '",
                name, command->children[i]->name);
        print_quoted(stream, command->children[i]->summary, "\\");
        fputs("'\n", stream);
    }
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        fprintf(stream,
                "complete -c lockstep -n '__lockstep_is \"%s\"' -l %s%s", name,
                negation(row), row->name);
        if (row->letter != 0)
            fprintf(stream, " -s %c", row->letter);
        if (row->choices != NULL) {
            fprintf(stream, " %s-a '",
                    row->type == LSI_OPTION_MODE ? "-f " : "-x ");
            print_choices(stream, row->choices);
            fputs("'", stream);
        } else if (!lsi_option_stands_alone(row)) {
            fputs(" -r", stream);
        }
        fputs(" -d '", stream);
        print_quoted(stream, row->help, "\\");
        fputs("'\n", stream);
        if (row->type == LSI_OPTION_MODE)
            fprintf(stream,
                    "complete -c lockstep -n '__lockstep_is \"%s\"' -l no-%s\n",
                    name, row->name);
    }
}

static void fish_known(FILE *stream, const lsi_command *command,
                       const char *name)
{
    (void)command;
    if (name[0] != '\0')
        fprintf(stream, " ' %s'", name);
}

void lsi_completion_fish(FILE *stream, const lsi_command *root)
{
    fputs("# Completion of lockstep for fish: lockstep completion fish | "
          "source\n"
          "function __lockstep_is\n"
          "    set -l known",
          stream);
    visit(stream, root, "", fish_known);
    fputs("\n    set -l command ''\n"
          "    for word in (commandline -opc)[2..]\n"
          "        if contains -- \"$command $word\" $known\n"
          "            set command \"$command $word\"\n"
          "        end\n"
          "    end\n"
          "    test (string trim -- \"$command\") = \"$argv[1]\"\n"
          "end\n",
          stream);
    visit(stream, root, "", fish_lines);
}
