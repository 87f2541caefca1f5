/*
 * A receive that is given up does not write any more, although MPI takes its
 * time; and what was sent is not read any more where it came from. MPI is
 * played here: the few functions of it that the wire calls.
 */
#include "testing.h"

#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "base/suspending_clock.h"
#include "clocks.h"
#include "comm/net/mpi/mpi_meet.h"
#include "comm/state/wire.h"

MPI_Comm lsi_mpi_comm;
char lsi_mpi_library[LSI_WIRE_LIBRARY_BYTES];
int lsi_mpi_highest_tag;

/* ---- MPI ----------------------------------------------------------------- */

enum { REQUEST = 1, NEVER = -1, FIRST_SEND = 100, SENDS = 8 };

static char *place; /* where the message goes */
static int tests_left, calls;
static int under_way;

/* Sends that MPI has taken, and not sent if `slow`. */
typedef struct sending {
    const unsigned char *data;
    size_t bytes;
    unsigned char sum;
    bool over;
} sending;

static sending sends[SENDS];
static int n_sends;
static bool slow;

static unsigned char sum_of(const sending *s)
{
    unsigned char sum = 0;
    for (size_t i = 0; i < s->bytes; i++)
        sum = (unsigned char)(sum * 3 + s->data[i]);
    return sum;
}

/* Bytes arrive whenever MPI is called, whoever has given up the receive. */
static void arrive(void)
{
    calls++;
    for (int i = 0; i < n_sends; i++)
        assert_true(sends[i].over || sum_of(&sends[i]) == sends[i].sum);
    if (!under_way)
        return;
    *place += 1;
    if (tests_left != NEVER && --tests_left == 0)
        under_way = 0;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag,
              MPI_Comm comm, MPI_Request *request)
{
    (void)count, (void)datatype, (void)source, (void)tag, (void)comm;
    place = buf;
    under_way = 1;
    *request = REQUEST;
    return MPI_SUCCESS;
}

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest,
              int tag, MPI_Comm comm, MPI_Request *request)
{
    (void)datatype, (void)dest, (void)tag, (void)comm;
    arrive();
    assert_true(n_sends < SENDS);
    sends[n_sends] = (sending){.data = buf, .bytes = (size_t)count};
    sends[n_sends].sum = sum_of(&sends[n_sends]);
    *request = FIRST_SEND + n_sends++;
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    (void)status;
    arrive();
    *flag = *request < FIRST_SEND ? !under_way : !slow;
    if (*flag && *request >= FIRST_SEND)
        sends[*request - FIRST_SEND].over = true;
    if (*flag)
        *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* It has begun to arrive: too late. */
int MPI_Cancel(MPI_Request *request)
{
    (void)request;
    return MPI_SUCCESS;
}

int MPI_Request_free(MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype datatype, int *count)
{
    (void)status, (void)datatype;
    *count = 1;
    return MPI_SUCCESS;
}

int MPI_Error_string(int errorcode, char *string, int *resultlen)
{
    (void)errorcode;
    *string = '\0';
    *resultlen = 0;
    return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    (void)comm;
    *rank = 0;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    (void)comm;
    *size = 2;
    return MPI_SUCCESS;
}

int lsi_mpi_open(double seconds)
{
    (void)seconds;
    return 0;
}

int lsi_mpi_gather(const void *send, size_t bytes, void *recv, double seconds)
{
    (void)send, (void)bytes, (void)recv, (void)seconds;
    return 0;
}

void lsi_mpi_close(void)
{
}

/* ---- giving up ----------------------------------------------------------- */

static void give_up(const lsi_wire *wire, char *bytes, int tests)
{
    lsi_ticket ticket;
    tests_left = tests;
    assert_int_equal(wire->receive(bytes, 1, 1, 1, 0, &ticket), 0);
    wire->cancel(&ticket);
    *bytes = 0; /* it is somebody else's by now */
}

static void what_has_begun_to_arrive_arrives_before(void **state)
{
    const lsi_wire *wire = lsi_wire_of_module();
    lsi_ticket ticket;
    char byte = 0, other = 0;
    int64_t done = -1;
    (void)state;
    clock_reset();
    give_up(wire, &byte, 5);
    n_sends = 0;
    for (int i = 0; i < SENDS; i++) {
        assert_int_equal(wire->send(&other, 1, 1, 0, 0, &ticket), 0);
        assert_int_equal(wire->test(&ticket, &done), 0);
        assert_int_equal(done, 1);
    }
    assert_int_equal(byte, 0);
}

static int released;

static void release(void *block)
{
    released++;
    free(block);
}

/*
 * MPI goes on reading what it was given: that is not where the bytes were, of
 * whom the owner has made something else.
 */
static void what_is_sent_is_nobodys(void **state)
{
    static const size_t sizes[] = {0, 1, 1024, 1025, LSI_WIRE_PIECE, 200000};
    const lsi_wire *wire = lsi_wire_of_module();
    lsi_ticket tickets[TEST_COUNT(sizes)], ticket = {0};
    char byte = 0;
    int64_t done = -1;
    (void)state;
    n_sends = 0;
    slow = true;
    released = 0;
    assert_non_null(wire->drop);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned char *const data = malloc(sizes[i] + 1);
        memset(data, (int)i + 1, sizes[i]);
        assert_int_equal(wire->send(data, sizes[i], 1, 0, 0, &tickets[i]), 0);
        assert_int_equal(wire->test(&tickets[i], &done), 0);
        assert_int_equal(done, -1);
        const bool gives = i % 2 == 0; /* the bytes, or only leave to go */
        wire->drop(&tickets[i], gives ? data : NULL, release);
        memset(data, 0, gives ? 0 : sizes[i]);
        if (!gives)
            free(data);
        assert_int_equal(tickets[i].handle, 0);
    }
    assert_int_equal(released, 3);
    slow = false;
    while (!sends[0].over || !sends[TEST_COUNT(sizes) - 1].over) {
        n_sends = TEST_COUNT(sizes);
        assert_int_equal(wire->send(&byte, 1, 1, 0, 0, &ticket), 0);
        assert_int_equal(wire->test(&ticket, &done), 0);
        assert_int_equal(done, 1);
    }
    wire->drop(&ticket, NULL, release); /* of one that is over */
}

/* The last: MPI is of no use any more. */
static void what_never_ends_is_left_alone(void **state)
{
    const lsi_wire *wire = lsi_wire_of_module();
    lsi_ticket ticket = {0};
    char byte = 0, other = 0;
    int64_t done = 0;
    (void)state;
    clock_reset();
    atomic_store(&clock_step_ns, LSI_SLICE_NS);
    give_up(wire, &byte, NEVER);
    clock_reset();
    const int before = calls;
    assert_int_equal(wire->send(&other, 1, 1, 0, 0, &ticket), -1);
    assert_non_null(
        strstr(wire->error(), "cancelled message is still in flight"));
    assert_int_equal(wire->receive(&other, 1, 1, 1, 0, &ticket), -1);
    assert_int_equal(wire->test(&ticket, &done), -1);
    wire->cancel(&ticket);
    assert_int_equal(calls, before);
    assert_int_equal(byte, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_begun_to_arrive_arrives_before),
        cmocka_unit_test(what_is_sent_is_nobodys),
        cmocka_unit_test(what_never_ends_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
