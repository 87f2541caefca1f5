/* Groups and what they exchange. */
#include <stdlib.h>
#include <unistd.h>

#include "unit/api/nulls.h"

static ls_group *open_group(void)
{
    ls_group *group = NULL;
    assert_ok(ls_group_open_threads(&group, 1));
    return group;
}

static void nulls_of_shared_memory(ls_group *group)
{
    void *data = NULL, *none = NULL;
    REFUSES(ls_shared_alloc, "group data", P(group, group), 64, P(data, &data));
    assert_ok(ls_shared_alloc(group, 64, &data));
    GIVES(NULL, ls_shared_peer, "group data", P(group, group), P(data, data),
          0);
    size_t bytes = 0;
    REFUSES(ls_shared_keep, "group data mapping bytes", P(group, group),
            P(data, data), P(mapping, &none), P(bytes, &bytes));
    REFUSES(ls_shared_free, "group data", P(group, group), P(data, &data));
    assert_ok(ls_shared_free(group, &none));
    assert_ok(ls_shared_free(group, &data));
}

/* A group of one rank gathers nothing. */
static ls_status gather_nothing(void *context, const void *send, size_t bytes,
                                void *recv, double seconds,
                                char why[LS_WHY_BYTES])
{
    (void)context, (void)send, (void)bytes, (void)recv, (void)seconds,
        (void)why;
    return LS_ERR_UNSUPPORTED;
}

void nulls_of_groups(void **state)
{
    char path[] = "/tmp/lockstep-nulls-XXXXXX";
    ls_group *group = open_group(), *part = NULL, *none = NULL;
    ls_group_counters counters = {1, 2, 3};
    ls_failure failure = {.struct_size = sizeof(failure)};
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    REFUSES(ls_group_open, "group name", P(group, &part), P(name, "nulls"), 0,
            1, NULL, 1);
    TAKES(ls_group_open, "store", &part, "nulls", 0, 1, P(store, NULL), 1);
    ls_group_close(&part);
    REFUSES(ls_group_open_by, "group", P(group, &part), 0, 1, gather_nothing,
            NULL, 1);
    TAKES(ls_group_open_by, "context", &part, 0, 1, gather_nothing,
          P(context, NULL), 1);
    ls_group_close(&part);
    REFUSES(ls_group_split, "group part", P(group, group), 0, 0,
            P(part, &part));
    BEARS(ls_group_get_counters, "group out", P(group, group),
          P(out, &counters));
    assert_int_equal(counters.collectives, 0);
    GIVES(false, ls_group_failure, "group out", P(group, group),
          P(out, &failure));
    assert_int_equal(ls_group_rank(NULL), -1);
    assert_int_equal(ls_group_local_rank(NULL), -1);
    REFUSES(ls_group_select, "group line", P(group, group), P(line, ""));
    REFUSES(ls_group_dump, "group path", P(group, group), P(path, path));
    nulls_of_shared_memory(group);
    unlink(path);
    ls_group_close(&none);
    ls_group_close(&group);
}

static void nothing_done(void *context, ls_status status)
{
    (void)context, (void)status;
}

static void nulls_of_received(ls_group *g)
{
    ls_request *receive = NULL, *send = NULL;
    float x = 0, y = 0;
    int source = 0, tag = 0;
    size_t bytes = 0;
    assert_ok(ls_isend(g, &x, 1, LS_F32, 0, 2, &send));
    REFUSES(ls_probe, "group", P(group, g), 0, 2, &source, &tag, &bytes);
    TAKES(ls_probe, "source message_tag bytes", g, 0, 2, P(source, &source),
          P(message_tag, &tag), P(bytes, &bytes));
    REFUSES(ls_iprobe, "group", P(group, g), 0, 2, &source, &tag, &bytes);
    TAKES(ls_iprobe, "source message_tag bytes", g, 0, 2, P(source, &source),
          P(message_tag, &tag), P(bytes, &bytes));
    assert_ok(ls_irecv(g, &y, 1, LS_F32, 0, 2, &receive));
    assert_ok(ls_wait(receive));
    REFUSES(ls_request_source, "request rank", P(request, receive),
            P(rank, &source));
    REFUSES(ls_request_tag, "request tag", P(request, receive), P(tag, &tag));
    REFUSES(ls_request_on_done, "request", P(request, send), nothing_done,
            NULL);
    assert_error(ls_request_on_done(send, NULL, NULL), LS_ERR_ARGUMENT,
                 "function");
    TAKES(ls_request_on_done, "context", send, nothing_done, P(context, &x));
    ls_request_free(&receive);
    ls_request_free(&send);
}

static void nulls_of_messages(ls_group *g)
{
    ls_request *request = NULL, *none = NULL;
    float x = 0, y = 0;
    REFUSES(ls_send, "group data", P(group, g), P(data, &x), 1, LS_F32, 0, 1);
    REFUSES(ls_recv, "group data", P(group, g), P(data, &x), 1, LS_F32, 0, 1);
    REFUSES_AS("ls_send", ls_isend, "group data", P(group, g), P(data, &x), 1,
               LS_F32, 0, 1, &request);
    REFUSES(ls_isend, "request", g, &x, 1, LS_F32, 0, 1, P(request, &request));
    REFUSES_AS("ls_recv", ls_irecv, "group data", P(group, g), P(data, &x), 1,
               LS_F32, 0, 1, &request);
    REFUSES(ls_irecv, "request", g, &x, 1, LS_F32, 0, 1, P(request, &request));
    REFUSES(ls_all_reduce_plan, "group request", P(group, g), &x, &y, 1, LS_F32,
            LS_REDUCE_SUM, P(request, &request));
    REFUSES_AS("ls_all_reduce", ls_all_reduce_plan, "send recv", g, P(send, &x),
               P(recv, &y), 1, LS_F32, LS_REDUCE_SUM, &request);
    REFUSES(ls_sendrecv, "group send recv", P(group, g), P(send, &x), 1, 0,
            P(recv, &y), 1, 0, LS_F32, 1);
    ls_request_free(&none);
    assert_null(request);
}

static void nulls_of_several(ls_group *g)
{
    ls_request *all[2] = {NULL, NULL};
    size_t done = 9;
    assert_ok(ls_wait_all(NULL, 0));
    assert_ok(ls_wait_any(NULL, 0, &done));
    assert_int_equal(done, 0);
    assert_ok(ls_wait_all(all, 2));
    assert_ok(ls_wait_any(all, 2, &done));
    assert_int_equal(done, 2);
    assert_ok(ls_ibarrier(g, &all[1]));
    REFUSES(ls_wait_any, "requests done", P(requests, all), 2, P(done, &done));
    assert_ok(ls_wait_any(all, 2, &done));
    assert_int_equal(done, 1);
    ls_request_free(&all[1]);
}

/* Errors about buffers name the operation. */
static void nulls_of_requests(ls_group *g)
{
    ls_request *r = NULL;
    float x = 0, y = 0;
    REFUSES_AS("barrier", ls_ibarrier, "group", P(group, g), &r);
    REFUSES(ls_ibarrier, "request", g, P(request, &r));
    REFUSES_AS("broadcast", ls_ibroadcast, "group data", P(group, g),
               P(data, &x), 1, LS_F32, 0, &r);
    REFUSES(ls_ibroadcast, "request", g, &x, 1, LS_F32, 0, P(request, &r));
    REFUSES_AS("all_reduce", ls_iall_reduce, "group send recv", P(group, g),
               P(send, &x), P(recv, &y), 1, LS_F32, LS_REDUCE_SUM, &r);
    REFUSES(ls_iall_reduce, "request", g, &x, &y, 1, LS_F32, LS_REDUCE_SUM,
            P(request, &r));
    REFUSES_AS("reduce", ls_ireduce, "group send recv", P(group, g),
               P(send, &x), P(recv, &y), 1, LS_F32, LS_REDUCE_SUM, 0, &r);
    REFUSES(ls_ireduce, "request", g, &x, &y, 1, LS_F32, LS_REDUCE_SUM, 0,
            P(request, &r));
    REFUSES_AS("all_gather", ls_iall_gather, "group send recv", P(group, g),
               P(send, &x), P(recv, &y), 1, LS_F32, &r);
    REFUSES(ls_iall_gather, "request", g, &x, &y, 1, LS_F32, P(request, &r));
    REFUSES_AS("reduce_scatter", ls_ireduce_scatter, "group send recv",
               P(group, g), P(send, &x), P(recv, &y), 1, LS_F32, LS_REDUCE_SUM,
               &r);
    REFUSES(ls_ireduce_scatter, "request", g, &x, &y, 1, LS_F32, LS_REDUCE_SUM,
            P(request, &r));
    REFUSES_AS("gather", ls_igather, "group send recv", P(group, g),
               P(send, &x), P(recv, &y), 1, LS_F32, 0, &r);
    REFUSES(ls_igather, "request", g, &x, &y, 1, LS_F32, 0, P(request, &r));
    REFUSES_AS("scatter", ls_iscatter, "group send recv", P(group, g),
               P(send, &x), P(recv, &y), 1, LS_F32, 0, &r);
    REFUSES(ls_iscatter, "request", g, &x, &y, 1, LS_F32, 0, P(request, &r));
    REFUSES_AS("all_to_all", ls_iall_to_all, "group send recv", P(group, g),
               P(send, &x), P(recv, &y), 1, LS_F32, &r);
    REFUSES(ls_iall_to_all, "request", g, &x, &y, 1, LS_F32, P(request, &r));
    assert_null(r);
}

static void nulls_of_premul(ls_group *g)
{
    ls_request *r = NULL;
    float x = 0, y = 0;
    REFUSES(ls_iall_reduce_premul, "group", P(group, g), &x, &y, 1, LS_F32, 2,
            &r);
    REFUSES_AS("all_reduce", ls_iall_reduce_premul, "send recv", g, P(send, &x),
               P(recv, &y), 1, LS_F32, 2, &r);
    REFUSES_AS("ls_iall_reduce", ls_iall_reduce_premul, "request", g, &x, &y, 1,
               LS_F32, 2, P(request, &r));
    REFUSES(ls_ireduce_scatter_premul, "group", P(group, g), &x, &y, 1, LS_F32,
            2, &r);
    REFUSES_AS("reduce_scatter", ls_ireduce_scatter_premul, "send recv", g,
               P(send, &x), P(recv, &y), 1, LS_F32, 2, &r);
    REFUSES_AS("ls_ireduce_scatter", ls_ireduce_scatter_premul, "request", g,
               &x, &y, 1, LS_F32, 2, P(request, &r));
    assert_null(r);
}

static void nulls_of_counted(ls_group *g)
{
    ls_request *r = NULL;
    const size_t one = 1;
    float x = 0, y = 0;
    REFUSES(ls_all_gatherv, "group send recv counts", P(group, g), P(send, &x),
            1, P(recv, &y), P(counts, &one), LS_F32);
    REFUSES(ls_reduce_scatterv, "group send recv counts", P(group, g),
            P(send, &x), P(recv, &y), P(counts, &one), LS_F32, LS_REDUCE_SUM);
    REFUSES(ls_all_to_allv, "group send send_counts recv recv_counts",
            P(group, g), P(send, &x), P(send_counts, &one), P(recv, &y),
            P(recv_counts, &one), LS_F32);
    REFUSES_AS("all_gatherv", ls_iall_gatherv, "group send recv counts",
               P(group, g), P(send, &x), 1, P(recv, &y), P(counts, &one),
               LS_F32, &r);
    REFUSES(ls_iall_gatherv, "request", g, &x, 1, &y, &one, LS_F32,
            P(request, &r));
    REFUSES_AS("reduce_scatterv", ls_ireduce_scatterv, "group send recv counts",
               P(group, g), P(send, &x), P(recv, &y), P(counts, &one), LS_F32,
               LS_REDUCE_SUM, &r);
    REFUSES(ls_ireduce_scatterv, "request", g, &x, &y, &one, LS_F32,
            LS_REDUCE_SUM, P(request, &r));
    REFUSES_AS("all_to_allv", ls_iall_to_allv,
               "group send send_counts recv recv_counts", P(group, g),
               P(send, &x), P(send_counts, &one), P(recv, &y),
               P(recv_counts, &one), LS_F32, &r);
    REFUSES(ls_iall_to_allv, "request", g, &x, &one, &y, &one, LS_F32,
            P(request, &r));
    assert_null(r);
}

void nulls_of_collectives(void **state)
{
    ls_group *g = open_group();
    float x = 0, y = 0;
    size_t sizes[1];
    void *all = NULL;
    (void)state;
    REFUSES(ls_broadcast, "group data", P(group, g), P(data, &x), 1, LS_F32, 0);
    REFUSES(ls_all_reduce, "group send recv", P(group, g), P(send, &x),
            P(recv, &y), 1, LS_F32, LS_REDUCE_SUM);
    REFUSES(ls_reduce, "group send recv", P(group, g), P(send, &x), P(recv, &y),
            1, LS_F32, LS_REDUCE_SUM, 0);
    REFUSES(ls_all_gather, "group send recv", P(group, g), P(send, &x),
            P(recv, &y), 1, LS_F32);
    REFUSES(ls_reduce_scatter, "group send recv", P(group, g), P(send, &x),
            P(recv, &y), 1, LS_F32, LS_REDUCE_SUM);
    REFUSES(ls_gather, "group send recv", P(group, g), P(send, &x), P(recv, &y),
            1, LS_F32, 0);
    REFUSES(ls_scatter, "group send recv", P(group, g), P(send, &x),
            P(recv, &y), 1, LS_F32, 0);
    REFUSES(ls_all_to_all, "group send recv", P(group, g), P(send, &x),
            P(recv, &y), 1, LS_F32);
    REFUSES(ls_all_gather_bytes, "group send sizes all", P(group, g),
            P(send, &x), 1, P(sizes, sizes), P(all, &all));
    nulls_of_messages(g);
    nulls_of_requests(g);
    nulls_of_several(g);
    nulls_of_received(g);
    nulls_of_counted(g);
    nulls_of_premul(g);
    assert_ok(ls_barrier(g)); /* nothing of this has broken the group */
    ls_group_close(&g);
}
