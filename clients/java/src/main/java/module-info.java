/** The Java client of Tickwheel, a durable delayed-job service. It needs nothing but the JDK. */
module io.github.tickwheel {
    requires transitive java.net.http;

    exports io.github.tickwheel;
    exports io.github.tickwheel.testing;
}
