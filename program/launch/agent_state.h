/* State of the agent, shared by its files. */
#ifndef LS_LAUNCH_AGENT_STATE_H
#define LS_LAUNCH_AGENT_STATE_H

#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/interface.h"
#include "comm/rendezvous/link.h"
#include "launch/agent.h"
#include "launch/coordinator.h"

enum { LSI_AGENT_MOST_ORDERS = 8 };

typedef enum lsi_agent_connection {
    LSI_AGENT_NONE,
    LSI_AGENT_CONNECTING,
    LSI_AGENT_SHAKING,
    LSI_AGENT_CONNECTED
} lsi_agent_connection;

struct lsi_agent {
    lsi_job_terms terms;
    const lsi_launch_ranks *ranks;
    const lsi_output *output;
    lsi_coordinator *coordinator; /* NULL: another node serves */
    char *secret;
    lsi_endpoint endpoint;
    char at[LSI_ENDPOINT_BYTES];
    char name[33], host[65];
    lsi_interface interface;
    struct addrinfo *addresses;
    const struct addrinfo *address; /* next address to try */
    int epoll, timer;
    lsi_agent_connection connection;
    lsi_link link;
    lsi_handshake shake;
    lsi_agent_stage stage;
    lsi_agent_message place;
    lsi_agent_message orders[LSI_AGENT_MOST_ORDERS];
    int n_orders;
    bool is_lost; /* the connection was lost while ranks were running */
    int verdict;
    double since;       /* start of the search for the endpoint */
    double until;       /* end of an attempt to connect, or start of the next */
    double reported_at; /* time of the last line about waiting */
    double last_message; /* time of the last received bytes */
    double last_ping;    /* time of the last sent ping */
};

/* Goes back to MEETING, for the time that hosts wait for each other. */
void lsi_agent_search_again(lsi_agent *agent);

/* Sends to the coordinator; does nothing without a connection. */
void lsi_agent_send(lsi_agent *agent, const lsi_agent_message *message);

#endif
