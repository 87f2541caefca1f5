/*
 * Messages of the library for JAX whose requests get no memory. The process is
 * the only rank, and sends to itself.
 */
#include "mpitrampoline/mpiabi.h"
#include "testing.h"

int MPIABI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPIABI_Finalize(void);
int MPIABI_Error_string(int code, char *text, int *length);
int MPIABI_Isend(const void *data, int count, mpi_type type, int to, int tag,
                 mpi_comm comm, mpi_request *out);
int MPIABI_Irecv(void *data, int count, mpi_type type, int from, int tag,
                 mpi_comm comm, mpi_request *out);
int MPIABI_Wait(mpi_request *request, void *status);
extern const mpi_comm MPIABI_COMM_WORLD;

enum { TAG = 3, REQUEST_BYTES = 2 * sizeof(void *) };

static bool has_no_requests; /* whether malloc fails for them */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c) */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return has_no_requests && bytes == REQUEST_BYTES ? NULL
                                                     : __real_malloc(bytes);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

static int send_number(const int *number, mpi_request *request)
{
    return MPIABI_Isend(number, 1, TYPE_INT32_T, 0, TAG, MPIABI_COMM_WORLD,
                        request);
}

static int receive_number(int *number, mpi_request *request)
{
    return MPIABI_Irecv(number, 1, TYPE_INT32_T, 0, TAG, MPIABI_COMM_WORLD,
                        request);
}

static void assert_no_memory(int code, mpi_request request)
{
    char text[MPI_ERROR_BYTES];
    int length = 0;
    assert_int_equal(code, MPI_FAILED);
    assert_null(request);
    assert_int_equal(MPIABI_Error_string(code, text, &length), MPI_OK);
    assert_string_equal(text, "no memory for a request");
}

/* Sends a number to itself. A message left in flight would change it. */
static void assert_next_is(int number)
{
    int received = 0;
    mpi_request from = NULL, to = NULL;
    assert_int_equal(receive_number(&received, &from), MPI_OK);
    assert_int_equal(send_number(&number, &to), MPI_OK);
    assert_int_equal(MPIABI_Wait(&from, NULL), MPI_OK);
    assert_int_equal(MPIABI_Wait(&to, NULL), MPI_OK);
    assert_int_equal(received, number);
}

static void a_message_without_a_request_does_not_begin(void **state)
{
    (void)state;
    int number = 1, provided = 0;
    mpi_request request = NULL;
    assert_int_equal(MPIABI_Init_thread(NULL, NULL, 0, &provided), MPI_OK);
    assert_next_is(2);
    has_no_requests = true;
    assert_no_memory(send_number(&number, &request), request);
    has_no_requests = false;
    assert_next_is(3);
    has_no_requests = true;
    assert_no_memory(receive_number(&number, &request), request);
    has_no_requests = false;
    assert_next_is(4);
    assert_int_equal(number, 1);
    assert_int_equal(MPIABI_Finalize(), MPI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_without_a_request_does_not_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
