// The Java connector's side of part `binlog`: row events, decoded as its defaults have them.
//
// Prints what `binlog_ours` prints, but its peak of memory, which who starts it watches. A script
// of Scala, whose compiler comes with Spark: what is measured begins when it is compiled.

import com.github.shyiko.mysql.binlog.BinaryLogClient
import com.github.shyiko.mysql.binlog.event.{
  DeleteRowsEventData, Event, EventData, UpdateRowsEventData, WriteRowsEventData
}
import java.lang.management.ManagementFactory
import com.sun.management.OperatingSystemMXBean

object BinlogConnector {
  private def used(): Double =
    ManagementFactory.getOperatingSystemMXBean.asInstanceOf[OperatingSystemMXBean]
      .getProcessCpuTime / 1e9

  def main(args: Array[String]): Unit = {
    val Array(port, user, password, file, offset) = args
    var images = 0L
    val client = new BinaryLogClient("127.0.0.1", port.toInt, user, password)
    client.setServerId(4000000056L)
    client.setBlocking(false)
    client.setBinlogFilename(file)
    client.setBinlogPosition(offset.toLong)
    client.registerEventListener(new BinaryLogClient.EventListener {
      def onEvent(event: Event): Unit = event.getData[EventData]() match {
        case rows: WriteRowsEventData => images += rows.getRows.size
        case rows: DeleteRowsEventData => images += rows.getRows.size
        case rows: UpdateRowsEventData => images += 2 * rows.getRows.size
        case _ =>
      }
    })
    val (began, before) = (System.nanoTime, used())
    client.connect()
    val seconds = (System.nanoTime - began) / 1e9
    println(s"""{"seconds": $seconds, "used": ${used() - before}, "images": $images}""")
  }
}
