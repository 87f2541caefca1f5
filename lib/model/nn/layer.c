/* Names, initial values and checks of layers' parameters. */
#include "model/nn/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"

enum { NAME_BYTES = 256 };

static ls_status make_name(char name[NAME_BYTES], lsi_layer_site site,
                           const char *part)
{
    if (snprintf(name, NAME_BYTES, "%s.%s", site.name, part) >= NAME_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the name of layer %.40s... is longer than %d bytes",
                        site.name, NAME_BYTES - 1);
    return LS_OK;
}

ls_status lsi_layer_param(lsi_layer_site site, const char *part, int ndim,
                          const int64_t *shape, ls_init init, ls_tensor **out)
{
    char name[NAME_BYTES];
    LS_TRY(make_name(name, site, part));
    return ls_params_add(site.params, name, ndim, shape, init, out);
}

ls_status lsi_layer_buffer(lsi_layer_site site, const char *part, int ndim,
                           const int64_t *shape, ls_init init, ls_tensor **out)
{
    char name[NAME_BYTES];
    LS_TRY(make_name(name, site, part));
    return ls_params_add_buffer(site.params, name, ndim, shape, init, out);
}

ls_init lsi_layer_uniform(int64_t fan_in)
{
    const double bound = 1.0 / sqrt((double)fan_in);
    return (ls_init){LS_INIT_UNIFORM, -bound, bound};
}

ls_status lsi_layer_check_extent(lsi_layer_site site, const char *what,
                                 int64_t extent)
{
    if (site.name == NULL || site.name[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT, "a layer has no name");
    if (extent < 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "layer %s: %s is %" PRId64 ", must be at least 1",
                        site.name, what, extent);
    return LS_OK;
}
