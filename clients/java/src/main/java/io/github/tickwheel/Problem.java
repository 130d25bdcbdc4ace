package io.github.tickwheel;

import java.io.Serializable;

/**
 * A problem document of RFC 9457.
 *
 * @param status the HTTP status
 * @param code the kind of problem, for programs
 * @param title a short text, the same for each problem of its kind
 * @param detail what is wrong, and what to do
 * @param field what is at fault: a JSON pointer into the body, or the name of a parameter or header
 * @param id the job that is concerned
 * @param requestId the id of the request in the log of the server
 */
public record Problem(
        int status, String code, String title, String detail, String field, String id, String requestId)
        implements WireType, Serializable {
    String describe() {
        return detail + " (" + code + (field == null ? "" : " at " + field) + ")";
    }
}
