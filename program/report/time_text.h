/* Times for people. */
#ifndef LS_REPORT_TIME_TEXT_H
#define LS_REPORT_TIME_TEXT_H

enum { LSI_TIME_TEXT = 24 };

/* "1:05" or "2:00:10"; not finite or negative: "-:--". */
void lsi_time_text(char out[LSI_TIME_TEXT], double seconds);

#endif
