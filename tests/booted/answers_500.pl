#!/usr/bin/perl
# A program that can be started in Axon's place, says that it is ready, and answers every request with 500.
use strict;
use warnings;
use Socket;

if (($ARGV[0] // '') eq '--version') {
    print "axon 0.0.2\n";
    exit;
}
open(my $listener, '+<&=', 3) or die "no socket: $!";
socket(my $manager, AF_UNIX, SOCK_DGRAM, 0) or die "no socket: $!";
send($manager, "READY=1", 0, pack_sockaddr_un($ENV{NOTIFY_SOCKET})) or die "cannot tell: $!";
while (accept(my $connection, $listener)) {
    # Head and variables; a unix socket gives them in one piece.
    sysread($connection, my $request, 65539);
    syswrite($connection, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    close($connection);
}
