/*
 * Arrivals in collectives, passed on between nodes.
 */
#ifndef LS_COMM_NEWS_H
#define LS_COMM_NEWS_H

#include "comm/far.h"

ls_status lsi_news_open(lsi_news *news, size_t ranks);
void lsi_news_close(lsi_news *news);

/* Passes on what can be; does nothing on any but a node's first rank. */
ls_status lsi_news_progress(ls_group *group);

#endif
