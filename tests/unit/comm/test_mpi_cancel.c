/*
 * A receive that is given up does not write any more, although MPI takes its
 * time. MPI is played here: the few functions of it that the wire calls.
 */
#include "testing.h"

#include <mpi.h>

#include "base/suspending_clock.h"
#include "clocks.h"
#include "comm/net/mpi/mpi_meet.h"
#include "comm/state/wire.h"

MPI_Comm lsi_mpi_comm;
char lsi_mpi_library[LSI_WIRE_LIBRARY_BYTES];
int lsi_mpi_highest_tag;

/* ---- MPI ----------------------------------------------------------------- */

enum { REQUEST = 1, NEVER = -1 };

static char *place; /* where the message goes */
static int tests_left, calls;
static int under_way;

/* Bytes arrive whenever MPI is called, whoever has given up the receive. */
static void arrive(void)
{
    calls++;
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
    (void)buf, (void)count, (void)datatype, (void)dest, (void)tag, (void)comm;
    arrive();
    *request = REQUEST;
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    (void)status;
    arrive();
    *flag = !under_way;
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
    (void)state;
    clock_reset();
    give_up(wire, &byte, 5);
    for (int i = 0; i < 10; i++)
        assert_int_equal(wire->send(&other, 1, 1, 0, 0, &ticket), 0);
    assert_int_equal(byte, 0);
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
    assert_non_null(strstr(wire->error(), "was given up"));
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
        cmocka_unit_test(what_never_ends_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
