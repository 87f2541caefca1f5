#include "base/requests.h"

bool lsi_request_counts(lsi_requests *requests, const siginfo_t *info,
                        double now)
{
    static const double one_event = 1;
    const bool is_key = info->si_code == SI_KERNEL;
    const bool both_keys = is_key && requests->last_key;
    if (requests->n > 0 && now - requests->last < one_event && !both_keys) {
        requests->last_key = requests->last_key || is_key;
        return false;
    }
    requests->n++;
    requests->last = now;
    requests->last_key = is_key;
    return true;
}
