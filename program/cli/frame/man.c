/* Manual pages in the man macros of troff; see man.h. */
#include "cli/frame/man.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lockstep/version.h"

enum { NAME_BYTES = 128 };

/* As it is: no request at the beginning of a line, and "-" a real minus. */
static void print_text(FILE *page, const char *text)
{
    bool at_line_begin = true;
    for (; *text != '\0'; text++) {
        if (at_line_begin && (*text == '.' || *text == '\''))
            fputs("\\&", page);
        if (text[0] == '\n' && text[1] == '\n') {
            fputs("\n.PP", page);
            continue;
        }
        if (*text == '-')
            fputs("\\-", page);
        else if (*text == '\\')
            fputs("\\e", page);
        else
            fputc(*text, page);
        at_line_begin = *text == '\n';
    }
}

static void print_option(FILE *page, const lsi_option *row)
{
    const bool on = row->type == LSI_OPTION_BOOL &&
                    row->default_value != NULL &&
                    strcmp(row->default_value, "true") == 0;
    fputs(".TP\n", page);
    if (row->letter != 0)
        fprintf(page, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", page);
    print_text(page, on ? "no-" : "");
    print_text(page, row->name);
    fputs("\\fR", page);
    if (row->type != LSI_OPTION_BOOL && row->value != NULL) {
        const bool attached = lsi_option_attaches(row);
        fputs(attached ? "[=\\fI" : " \\fI", page);
        print_text(page, row->value);
        print_text(page, row->type == LSI_OPTION_TEXTS ? " ..." : "");
        fputs(attached ? "\\fR]" : "\\fR", page);
    }
    fputc('\n', page);
    print_text(page, on ? "turn off: " : "");
    print_text(page, row->help);
    if (row->choices != NULL && row->type != LSI_OPTION_INT) {
        fputs(": ", page);
        for (const char *c = row->choices; *c != '\0'; c++)
            fputs(*c == '|' ? ", " : (const char[]){*c, '\0'}, page);
    }
    if (row->type != LSI_OPTION_BOOL && row->default_value != NULL) {
        fputs(" (default ", page);
        print_text(page, row->default_value);
        fputs(")", page);
    }
    fputc('\n', page);
}

/* `name` has words, "train lm"; `file` has none, "train-lm". */
static void print_page(FILE *page, const lsi_command *command, const char *name,
                       const char *file)
{
    fprintf(page, ".TH \"lockstep%s%s\" 1 \"\" \"lockstep %s\"\n",
            file[0] ? "-" : "", file, ls_version_string());
    fprintf(page, ".SH NAME\nlockstep%s%s \\- ", file[0] ? "\\-" : "", file);
    print_text(page, command->summary);
    fprintf(page, "\n.SH SYNOPSIS\n\\fBlockstep%s%s\\fR", name[0] ? " " : "",
            name);
    if (command->n_children > 0)
        fputs(" \\fICOMMAND\\fR", page);
    if (command->n_options > 0 || command->n_children > 0)
        fputs(" [\\fIFLAGS\\fR]", page);
    if (command->arguments != NULL) {
        fputs(" ", page);
        print_text(page, command->arguments);
    }
    if (command->text != NULL) {
        fputs("\n.SH DESCRIPTION\n", page);
        print_text(page, command->text);
    }
    fputs(command->n_children > 0 ? "\n.SH COMMANDS\n" : "\n", page);
    for (size_t i = 0; i < command->n_children; i++) {
        fprintf(page, ".TP\n\\fBlockstep\\-%s%s%s\\fR(1)\n", file,
                file[0] ? "\\-" : "", command->children[i]->name);
        print_text(page, command->children[i]->summary);
        fputc('\n', page);
    }
    if (command->n_options > 0)
        fputs(".SH FLAGS\n", page);
    for (size_t i = 0; i < command->n_options; i++)
        print_option(page, &command->options[i]);
}

static ls_status write_page(const lsi_command *command, const char *folder,
                            const char *name, const char *file)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/lockstep%s%s.1", folder,
             file[0] ? "-" : "", file);
    FILE *page = fopen(path, "w");
    if (page == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    print_page(page, command, name, file);
    const bool good = ferror(page) == 0;
    if (fclose(page) != 0 || !good)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    return LS_OK;
}

static ls_status write_pages(const lsi_command *command, const char *folder,
                             const char *name, const char *file)
{
    LS_TRY(write_page(command, folder, name, file));
    for (size_t i = 0; i < command->n_children; i++) {
        const char *const child = command->children[i]->name;
        char full[NAME_BYTES], joined[NAME_BYTES];
        snprintf(full, sizeof(full), "%s%s%s", name, name[0] ? " " : "", child);
        snprintf(joined, sizeof(joined), "%s%s%s", file, file[0] ? "-" : "",
                 child);
        LS_TRY(write_pages(command->children[i], folder, full, joined));
    }
    return LS_OK;
}

ls_status lsi_man_write(const lsi_command *root, const char *folder)
{
    LS_TRY(lsi_need_folders(folder));
    return write_pages(root, folder, "", "");
}
